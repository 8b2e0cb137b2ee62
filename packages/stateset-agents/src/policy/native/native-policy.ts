import type { EngineStats, WeightChange } from "@stateset-agents/engine";
import type { ModelInfo, Policy } from "../policy.ts";
import type { LoadedTokenizer } from "../tokenizer/index.ts";
import { onEngine } from "./errors.ts";
import { adapterParameters } from "./memory.ts";
import { NativeCore, type NativeParts } from "./native-core.ts";
import { createPasses } from "./passes.ts";
import { createReferences, type NativeReference } from "./reference.ts";
import { type Abort, checkRequest, type Sampler, sampleOne } from "./sampling.ts";
import { checkStep } from "./step-options.ts";
import { createStoredWeights } from "./stored-weights.ts";

/** The Policy contract on the embedded engine, and what only this engine offers. */
export interface NativePolicy extends Policy {
  readonly tokenizer: LoadedTokenizer;
  /** Of the present weights: goes up with every change. Every sample carries the one that made it. */
  readonly version: number;
  /** A name for the numbers of the present weights, the same in every process: for telling which weights a version was. */
  digest(): Promise<string>;
  /** At once, also while the engine is at work. */
  stats(): EngineStats;
  /**
   * Puts in other weights of the same shape as one change: a snapshot (without its optimiser state), a folder in Hugging Face layout,
   * or, where the policy has an adapter, one in PEFT's. Running replies end with the weights they began with.
   */
  load(dir: string): Promise<WeightChange>;
  /** The present weights as they are now, to compare with; under LoRA with the adapter, or without (the base model). No copy is made. */
  retain(options?: { adapters?: boolean }): Promise<NativeReference>;
  /** As load(), beside the present weights. Under LoRA a folder with whole weights is a base model, compared with as it is. */
  loadReference(dir: string): Promise<NativeReference>;
}

export function createNativePolicy(parts: NativeParts): NativePolicy {
  const { name, config, model, tokenizer, adapter } = parts;
  const { engine } = config;
  const core = new NativeCore(parts);
  const references = createReferences(core);
  const sampler: Sampler = { model, tokenizer, vocabSize: engine.vocab, contextLength: engine.maxPositions };

  return {
    get model(): ModelInfo {
      const trained = adapter ? adapterParameters(adapter) : core.parameters;
      return {
        name,
        architecture: config.architecture,
        parameters: core.parameters,
        trainableParameters: trained + (core.valueHead ? engine.hidden + 1 : 0),
        hiddenSize: engine.hidden,
        layers: engine.layers,
        vocabSize: engine.vocab,
        contextLength: engine.maxPositions,
        endTokens: tokenizer.endTokens,
        ...(adapter && { lora: adapter.lora }),
        valueHead: core.valueHead,
        stub: false,
      };
    },
    tokenizer,
    get version() {
      return model.version;
    },
    digest: () => core.run(() => model.digest()),
    stats: () => model.stats(),

    sample: (requests, { signal, onToken } = {}) =>
      core.run(async () => {
        requests.forEach((request, index) => {
          checkRequest(sampler, request, index);
        });
        const abort: Abort = { aborted: signal?.aborted ?? false, running: new Set() };
        const stop = () => {
          abort.aborted = true;
          for (const cancel of abort.running) cancel();
        };
        signal?.addEventListener("abort", stop, { once: true });
        const replies = requests.map((request, index) => sampleOne(sampler, request, index, abort, onToken));
        try {
          return await Promise.all(replies);
        } catch (error) {
          // One request's failure (the caller's callback, say) must not leave the others sampling for nobody.
          stop();
          await Promise.allSettled(replies);
          throw error;
        } finally {
          signal?.removeEventListener("abort", stop);
        }
      }),

    ...createPasses(core),
    step: (options) =>
      core.train(async () => {
        const checked = checkStep(options);
        core.untouched = false;
        return model.step(checked);
      }),
    zeroGradients: () => core.run(() => model.zeroGradients()),
    addValueHead: (seed) => core.run(() => core.addValueHead(seed)),
    readVector: (what) => core.train(() => model.readFlat(what)),
    addVector: (delta) =>
      core.train(async () => {
        core.untouched = false;
        await model.addFlat(delta);
      }),

    reference: references.reference,
    retain: references.retain,
    loadReference: references.loadReference,
    ...createStoredWeights(core, references),

    async close() {
      if (core.closed) return;
      core.closed = true;
      await onEngine(() => model.close());
    },
  };
}
