import type { Model, RetainedWeights } from "@stateset-agents/engine";
import type { Policy, Reference, TokenTree } from "../policy.ts";
import { foresee } from "./memory.ts";
import type { NativeCore } from "./native-core.ts";
import { checkTree } from "./token-tree.ts";
import { openWeightSource } from "./weight-source.ts";
import type { TensorTarget } from "./weights.ts";

/** Weights to compare with, whatever becomes of the policy's own. Takes memory only for what differs from these. */
export interface NativeReference extends Reference {
  /** Of the weights that were retained; another number after blend(). */
  readonly version: number;
  /** An exponential moving average: this ← decay·this + (1 − decay)·policy. */
  blend(decay: number): Promise<void>;
  /** Frees it. One that is forgotten is freed in time. */
  close(): Promise<void>;
}

/** Where the weights of the policy's own reference are to be found again: not made, in the model's files, only in a snapshot. */
export type ReferenceSource = "none" | "loaded" | "saved";

export interface References extends Pick<Policy, "reference"> {
  retain(options?: { adapters?: boolean }): Promise<NativeReference>;
  loadReference(dir: string): Promise<NativeReference>;
  /** The one that reference() gives and that snapshots hold. */
  readonly own: { weights: RetainedWeights | undefined; source: ReferenceSource };
  replaceOwn(weights: RetainedWeights, source: ReferenceSource): Promise<void>;
  foreseeOwn(): void;
}

export function createReferences(core: NativeCore): References {
  const { model, config, adapter, name } = core.parts;
  const { engine } = config;
  const own: References["own"] = { weights: undefined, source: "none" };

  /** With retained weights (or the present ones), with or without adapters. */
  const score = (
    batch: TokenTree,
    temperature: number,
    { weights, adapters }: { weights: RetainedWeights | undefined; adapters: boolean },
  ): Promise<Float32Array> =>
    core.run(async () => {
      checkTree(batch, engine.vocab, engine.maxPositions);
      const wants = { grad: false, entropy: false, values: false, hidden: false, recompute: false };
      const from = { adapters, weights: weights?.handle, dropoutSeed: undefined };
      return (await model.forward(batch, { ...wants, ...from, temperature })).logprobs;
    });
  const referenceOf = (weights: RetainedWeights, adapters: boolean): NativeReference => ({
    get version() {
      return weights.version;
    },
    logprobs: (batch, { temperature = 1 } = {}) => score(batch, temperature, { weights, adapters }),
    blend: (decay) => core.run(() => weights.blend(decay)),
    close: () => core.run(() => weights.close()),
  });
  const foreseeOwn = () => {
    if (own.source !== "none") return;
    foresee(core.needs.reference, `A frozen copy of ${name}`, "Use LoRA, whose reference needs no copy.");
  };
  const replaceOwn = async (weights: RetainedWeights, source: ReferenceSource) => {
    const old = own.weights;
    own.weights = weights;
    own.source = source;
    await old?.close();
  };

  return {
    own,
    replaceOwn,
    foreseeOwn,
    reference: ({ renew = false } = {}) =>
      core.run(async () => {
        const present = own.source === "loaded" && core.untouched;
        if (!adapter && (own.source === "none" || (renew && !present))) {
          foreseeOwn();
          const source = core.untouched ? "loaded" : "saved";
          await replaceOwn(await model.retain(), source);
        }
        return {
          // With an adapter, the base model; else whatever weights are the reference by then.
          logprobs: (batch, { temperature = 1 } = {}) =>
            score(batch, temperature, { weights: own.weights, adapters: false }),
        };
      }),
    retain: ({ adapters = true } = {}) => core.run(async () => referenceOf(await model.retain(), adapters)),
    loadReference: (dir) =>
      core.run(async () => {
        const source = await openWeightSource(dir, { config, adapter, tensors: () => model.tensors() });
        try {
          if (source.holds === "weights") {
            foresee(core.needs.weights, `A second model from ${dir}`, "Use a smaller model, or LoRA.");
          }
          return referenceOf(await loadRetained(model, source.into), source.holds === "adapter");
        } finally {
          await source.close();
        }
      }),
  };
}

/** Weights beside the present ones, from whatever fills them. */
export async function loadRetained(
  model: Model,
  fill: (target: TensorTarget) => Promise<void>,
): Promise<RetainedWeights> {
  const load = await model.beginRetainedLoad();
  try {
    // Nobody asks a reference for values.
    await fill({
      setTensor: async (name, data) => (name.startsWith("value.") ? undefined : load.setTensor(name, data)),
    });
    return await load.retain();
  } catch (error) {
    await load.discard().catch(() => {});
    throw error;
  }
}
