import { createHash } from "node:crypto";
import type { EngineStats } from "@stateset-agents/engine";
import { ArrayVector, arrayOf } from "../array-vector.ts";
import type { ModelInfo, Policy } from "../policy.ts";
import { type Drawer, sampleReplies } from "../sample-replies.ts";
import { checkStep } from "../step-options.ts";
import type { LoadedTokenizer } from "../tokenizer/index.ts";
import { changedVersion } from "../version.ts";
import { Constraints } from "./constraints.ts";
import { createEmbed } from "./embed.ts";
import { onEngine } from "./errors.ts";
import { adapterParameters, planMemory } from "./memory.ts";
import { NativeCore, type NativeParts } from "./native-core.ts";
import { createPasses } from "./passes.ts";
import { createReferences } from "./reference.ts";
import { createStoredWeights } from "./stored-weights.ts";

/** The Policy contract on the embedded engine. */
export interface NativePolicy extends Policy {
  readonly tokenizer: LoadedTokenizer;
  stats(): EngineStats;
}

const capabilities = {
  exact: true,
  seeded: true,
  entropy: true,
  values: true,
  hidden: true,
  vectors: true,
  loraPlus: true,
  promptLogprobs: true,
  embed: true,
};

export function createNativePolicy(parts: NativeParts): NativePolicy {
  const { name, digest, config, model, tokenizer, adapter } = parts;
  const { engine } = config;
  const core = new NativeCore(parts);
  const { cacheBytes, activationBytes, weightBytes, moments, gradients } = parts;
  const kept = { cacheBytes, activationBytes, weightBytes, moments, referenceBytes: parts.reference?.bytes };
  const { names } = core;
  const constraints = new Constraints(model, tokenizer, engine.vocab);
  const drawer: Drawer = {
    tokenizer,
    vocabSize: engine.vocab,
    contextLength: engine.maxPositions,
    draw: ({ constraint, ...request }, take) =>
      model.sample({ ...request, constraint: constraint && constraints.idOf(constraint) }, take),
    versionAt: (count = model.version) => names.at(count),
  };

  return {
    get model(): ModelInfo {
      const trained = adapter ? adapterParameters(adapter) : core.parameters;
      return {
        name,
        digest,
        architecture: config.architecture,
        parameters: core.parameters,
        trainableParameters: trained + (core.valueHead ? engine.hidden + 1 : 0),
        hiddenSize: engine.hidden,
        layers: engine.layers,
        vocabSize: engine.vocab,
        contextLength: engine.maxPositions,
        endTokens: tokenizer.endTokens,
        ...(adapter && { lora: adapter.lora }),
        ...(moments !== "f32" && { moments }),
        ...(gradients !== "f32" && { gradients }),
        valueHead: core.valueHead,
        stub: false,
      };
    },
    tokenizer,
    capabilities: {
      ...capabilities,
      // Asked only by those who want it: it takes a look at the whole vocabulary.
      get constrain() {
        return constraints.supported;
      },
    },
    get version() {
      return names.now;
    },
    stats: () => model.stats(),
    plan: (options) => planMemory(config, adapter, kept, options),

    sample: (requests, options) => core.run(() => sampleReplies(drawer, requests, options)),

    ...createEmbed(core),
    ...createPasses(core),
    step: (options) =>
      core.train(async () => {
        const checked = checkStep(options, { hasAdapter: adapter !== undefined });
        const { version: count, ...report } = await model.step(checked);
        const { gradNorm, applied } = report;
        const version = applied
          ? await names.name(count, (before) => changedVersion(before, "step", checked, gradNorm))
          : await names.at(count);
        return { ...report, version };
      }),
    zeroGradients: () => core.run(() => model.zeroGradients()),
    addValueHead: () => core.run(() => core.addValueHead()),
    vector: (of) => core.train(async () => new ArrayVector(await model.readFlat(of))),
    async moveTo(vector) {
      // At once: what the caller does to it later is not meant.
      const values = Float32Array.from(arrayOf(vector));
      const named = changedVersion(core.opened, "at", hashOf(values));
      return core.train(async () => {
        const { version: count, drained } = await model.writeFlat(values);
        return { version: await names.name(count, () => named), drained };
      });
    },

    ...createReferences(core),
    ...createStoredWeights(core),

    async close() {
      if (core.closed) return;
      core.closed = true;
      await onEngine(async () => {
        for (const copy of core.beside) await copy.close();
        await model.close();
      });
    },
  };
}

function hashOf(values: Float32Array): string {
  return createHash("sha256")
    .update(new Uint8Array(values.buffer, values.byteOffset, values.byteLength))
    .digest("hex");
}
