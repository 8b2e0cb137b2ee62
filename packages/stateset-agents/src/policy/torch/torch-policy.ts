import type { Capabilities, ModelInfo, Policy } from "../policy.ts";
import { checkStep } from "../step-options.ts";
import type { LoadedTokenizer } from "../tokenizer/index.ts";
import { changedVersion } from "../version.ts";
import type { TorchCore } from "./torch-core.ts";
import { planTorch } from "./torch-memory.ts";
import { createPasses } from "./torch-passes.ts";
import { createReferences } from "./torch-references.ts";
import { createSamples } from "./torch-samples.ts";
import { createStoredWeights } from "./torch-stored-weights.ts";
import { createVectors } from "./torch-vectors.ts";
import type { WorkerFacts } from "./worker-link.ts";

/** The Policy contract on PyTorch, in processes of its own. */
export interface TorchPolicy extends Policy {
  readonly tokenizer: LoadedTokenizer;
  /** What computes: where, on which GPUs, in which processes. */
  readonly worker: WorkerFacts;
  /** Starts a worker anew after WORKER_LOST, with the model as it was opened: what comes next is restore(). Nothing where none was lost. */
  revive(): Promise<void>;
}

export function createTorchPolicy(core: TorchCore): { policy: TorchPolicy; onBeat: () => void } {
  const { name, tokenizer, lora, passesInFlight } = core.parts;
  const ranks = core.link.hello.world;
  const { beat, ...samples } = createSamples(core);
  const capabilities: Capabilities = { ...core.info.capabilities, ranks, passesInFlight };
  const policy: TorchPolicy = {
    get model(): ModelInfo {
      const { info } = core;
      const added = core.valueHead && !info.valueHead ? info.hiddenSize + 1 : 0;
      return {
        name,
        digest: info.digest,
        architecture: info.architecture,
        parameters: info.parameters,
        trainableParameters: info.trainableParameters + added,
        hiddenSize: info.hiddenSize,
        layers: info.layers,
        vocabSize: info.vocabSize,
        contextLength: info.contextLength,
        endTokens: tokenizer.endTokens,
        ...(lora && { lora }),
        valueHead: core.valueHead,
        stub: false,
      };
    },
    tokenizer,
    capabilities,
    get worker() {
      return core.link.hello;
    },
    get version() {
      return core.names.now;
    },
    plan: (options) => planTorch(core.info, options, { adapted: lora !== undefined, ranks }),
    ...samples,
    ...createPasses(core),
    step: (options) =>
      core.run(async () => {
        const checked = checkStep(options, { hasAdapter: lora !== undefined });
        const reply = await core.call("step", { ...checked });
        const [gradNorm, applied, count] = [reply.number("gradNorm"), reply.flag("applied"), reply.count("count")];
        const version = applied
          ? await core.names.name(count, (before) => changedVersion(before, "step", checked, gradNorm))
          : await core.names.at(count);
        return { gradNorm, applied, version, drained: reply.flag("drained") };
      }),
    zeroGradients: () => core.run(async () => void (await core.call("zeroGradients"))),
    addValueHead: () =>
      core.run(async () => {
        if (!core.valueHead) await core.call("addValueHead");
        core.valueHead = true;
      }),
    ...createVectors(core),
    ...createReferences(core),
    ...createStoredWeights(core),
    revive: () => core.revive(),
    close: () => core.close(),
  };
  return { policy, onBeat: beat };
}
