import { EngineError } from "./error.ts";
import type { Handle, LoadHandle, NativeEngine, WeightChange, WeightsHandle } from "./native.ts";
import { settled } from "./settled.ts";

/** Weights that stay as they are, whatever becomes of the present ones. They take memory only for what differs. */
export interface RetainedWeights {
  /** To be given to forward(). */
  readonly handle: WeightsHandle;
  /** The version they were when they were retained; another number once they have been blended. */
  readonly version: number;
  readTensor(name: string): Promise<Float32Array>;
  /** An exponential moving average: these ← decay·these + (1 − decay)·present. Answers which version the present ones were. */
  blend(decay: number): Promise<number>;
  /** A name for their numbers, the same in every process. The value head is not part of it. */
  digest(): Promise<string>;
  /** Frees them, unless the model was closed and has freed them itself. */
  close(): Promise<void>;
}

/** Retained weights with what the optimiser knew: all that training needs to go on from there. */
export interface RetainedTraining extends RetainedWeights {
  /** Optimiser steps: of the policy, of the value head. */
  readonly steps: [number, number];
  /** AdamW's first and second moments. */
  readMoments(name: string): Promise<[Float32Array, Float32Array]>;
}

/** Tensors that are set one by one in weights that nobody sees until they are whole. A load that is forgotten is discarded. */
interface LoadSteps {
  /**
   * Row-major [rows, cols]: numbers, which are rounded to the form the tensor is kept in, or the bytes of a file in that very form.
   * What is not set is shared with the weights that were the present ones when the load began.
   */
  setTensor(name: string, data: Float32Array | Uint8Array): Promise<void>;
  discard(): Promise<void>;
}

/**
 * A load that becomes the present weights. Where there is no memory for a second copy it works in the present ones: it then waits
 * for running replies first, holds back everything else until it ends, and must not be discarded (what is left is not whole, and
 * every call fails with WEIGHTS_INCOMPLETE until something whole is loaded). So ask the model for nothing else between two steps.
 */
export interface WeightsLoad extends LoadSteps {
  /** AdamW's first and second moments. They become the optimiser's with the weights; those that are not set become zero. */
  setMoments(name: string, m: Float32Array, v: Float32Array): Promise<void>;
  /** Optimiser steps so far: of the policy, of the value head. Of what is loaded without them there were none. */
  setStepCounts(policy: number, value: number): Promise<void>;
  /** One change. Clears the gradients. */
  commit(): Promise<WeightChange>;
}

/** A load that is kept beside the present weights, to score with. */
export interface RetainedLoad extends LoadSteps {
  retain(): Promise<RetainedWeights>;
}

export function retained(
  native: NativeEngine,
  model: Handle,
  { weights, version }: { weights: WeightsHandle; version: number },
): RetainedWeights {
  let now = version;
  return {
    handle: weights,
    get version() {
      return now;
    },
    readTensor: (name) => settled(() => native.readTensor(model, "parameters", name, weights)),
    async blend(decay) {
      const { version: blended, present } = await settled(() => native.blend(model, weights, decay));
      now = blended;
      return present;
    },
    digest: () => settled(() => native.digest(model, weights)),
    close: () =>
      settled(() => native.release(model, weights)).catch((error: unknown) => {
        if (!(error instanceof EngineError && error.code === "CLOSED")) throw error;
      }),
  };
}

export function retainedTraining(
  native: NativeEngine,
  model: Handle,
  { steps, ...held }: { weights: WeightsHandle; version: number; steps: [number, number] },
): RetainedTraining {
  return Object.assign(retained(native, model, held), {
    steps,
    readMoments: (name: string) => settled(() => native.readTensor(model, "moments", name, held.weights)),
  });
}

function loadSteps(native: NativeEngine, model: Handle, load: LoadHandle): LoadSteps {
  return {
    setTensor: (name, data) => settled(() => native.loadTensor(model, load, name, data)),
    discard: () => settled(() => native.release(model, load)),
  };
}

export async function beginLoad(native: NativeEngine, model: Handle): Promise<WeightsLoad> {
  const load = await settled(() => native.beginLoad(model, false));
  return {
    ...loadSteps(native, model, load),
    setMoments: (name, m, v) => settled(() => native.loadMoments(model, load, name, m, v)),
    setStepCounts: (policy, value) => settled(() => native.loadSteps(model, load, policy, value)),
    commit: () => settled(() => native.commitLoad(model, load)),
  };
}

export async function beginRetainedLoad(native: NativeEngine, model: Handle): Promise<RetainedLoad> {
  const load = await settled(() => native.beginLoad(model, true));
  return {
    ...loadSteps(native, model, load),
    retain: async () => retained(native, model, await settled(() => native.keepLoad(model, load))),
  };
}
