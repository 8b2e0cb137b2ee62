import type { Model, RetainedWeights } from "@stateset-agents/engine";
import type { Reference, TokenTree } from "../policy.ts";

/** Weights to compare with, whatever becomes of the policy's own. Takes memory only for what differs from these. */
export interface NativeReference extends Reference {
  /** Of the weights that were retained; another number after blend(). */
  readonly version: number;
  /** An exponential moving average: this ← decay·this + (1 − decay)·policy. */
  blend(decay: number): Promise<void>;
  /** Frees it. One that is forgotten is freed in time. */
  close(): Promise<void>;
}

/** Scores with retained weights (or the present ones), with or without adapters. */
export type Score = (
  batch: TokenTree,
  temperature: number,
  from: { weights: RetainedWeights | undefined; adapters: boolean },
) => Promise<Float32Array>;

export function createReference(weights: RetainedWeights, adapters: boolean, score: Score): NativeReference {
  return {
    get version() {
      return weights.version;
    },
    logprobs: (batch, { temperature = 1 } = {}) => score(batch, temperature, { weights, adapters }),
    blend: (decay) => weights.blend(decay),
    close: () => weights.close(),
  };
}

/** Where the weights of the policy's own reference are to be found again: not made, in the model's files, only in a snapshot. */
export type ReferenceSource = "none" | "loaded" | "saved";

/** The one reference that reference() gives and that snapshots hold. */
export class OwnReference {
  #weights: RetainedWeights | undefined;
  #source: ReferenceSource = "none";

  get weights(): RetainedWeights | undefined {
    return this.#weights;
  }

  get source(): ReferenceSource {
    return this.#source;
  }

  /** Takes other weights in the place of those it had. */
  async replace(weights: RetainedWeights, source: ReferenceSource): Promise<void> {
    const old = this.#weights;
    this.#weights = weights;
    this.#source = source;
    await old?.close();
  }
}

/** Weights beside the present ones, from whatever fills them. */
export async function loadRetained(
  model: Model,
  fill: (target: { setTensor(name: string, data: Float32Array): Promise<void> }) => Promise<void>,
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
