import { EngineError } from "./error.ts";
import { loadNative } from "./load.ts";
import type {
  EngineConfig,
  EngineDerivatives,
  EngineLora,
  EngineStep,
  ForwardBatch,
  ForwardResult,
  ForwardWants,
  Handle,
  MemoryUse,
  NativeEngine,
  OpenOptions,
  SampledReply,
  SampleOptions,
  StepResult,
  TensorSpec,
} from "./native.ts";

/** Called for each token of one request as it is drawn. */
export type TokenListener = (token: number, logprob: number) => void;

/**
 * A transformer in the engine. All work happens on a thread of its own, in the order of the calls; sampling goes on alongside
 * calls that only read the weights, and is finished before one that changes them.
 */
export interface Model {
  /** The vector instructions in use: avx512, avx2, neon or scalar. */
  readonly simd: string;
  tensors(): Promise<TensorSpec[]>;
  /** Row-major [rows, cols]. */
  setTensor(name: string, data: Float32Array, target?: "model" | "reference"): Promise<void>;
  readTensor(name: string, what?: "parameters" | "reference" | "gradients"): Promise<Float32Array>;
  /** AdamW's first and second moments. */
  readMoments(name: string): Promise<[Float32Array, Float32Array]>;
  writeMoments(name: string, m: Float32Array, v: Float32Array): Promise<void>;
  /** Optimiser steps so far: of the policy, of the value head. */
  stepCounts(): Promise<[number, number]>;
  setStepCounts(policy: number, value: number): Promise<void>;
  setTrainable(mode: "none" | "full" | "adapters"): Promise<void>;
  setThreads(threads: number): Promise<void>;
  addLora(lora: EngineLora): Promise<void>;
  addValueHead(seed: number): Promise<void>;
  /** A frozen second model of the same shape: a copy of the present weights, or zeros to be set. */
  makeReference(threads: number, copy: boolean): Promise<void>;
  memory(): Promise<MemoryUse>;
  /** `cancel` (see below) makes the promise resolve with what there is and finish "aborted". */
  sample(request: SampleOptions, onToken?: TokenListener): { reply: Promise<SampledReply>; cancel(): void };
  forward(batch: ForwardBatch, wants: ForwardWants): Promise<ForwardResult>;
  backward(pass: number, derivatives: EngineDerivatives): Promise<void>;
  release(pass: number): Promise<void>;
  step(options: EngineStep): Promise<StepResult>;
  zeroGradients(): Promise<void>;
  readFlat(what: "parameters" | "gradients"): Promise<Float32Array>;
  addFlat(delta: Float32Array): Promise<void>;
  /** Frees the model. Later calls, and work that was still waiting, fail with the code CLOSED. */
  close(): Promise<void>;
}

let lastRequest = 0;

/** Reserves a model of this shape; its parameters are zero until they are set. */
export async function openModel(config: EngineConfig, options: OpenOptions): Promise<Model> {
  const native = loadNative();
  // The native side holds this map's callback, not the model, so that a forgotten model can be collected.
  const listeners = new Map<number, TokenListener>();
  const onTokens = (ids: number[], tokens: Int32Array, logprobs: Float32Array) => {
    ids.forEach((id, i) => {
      listeners.get(id)?.(tokens[i]!, logprobs[i]!);
    });
  };
  const { handle, simd } = await settled(() => native.open(config, options, onTokens));
  return createModel(native, handle, simd, listeners);
}

function createModel(native: NativeEngine, handle: Handle, simd: string, listeners: Map<number, TokenListener>): Model {
  return {
    simd,
    tensors: () => settled(() => native.tensors(handle)),
    setTensor: (name, data, target = "model") =>
      settled(() => native.setTensor(handle, name, data, target === "reference")),
    readTensor: (name, what = "parameters") => settled(() => native.readTensor(handle, what, name)),
    readMoments: (name) => settled(() => native.readTensor(handle, "moments", name)),
    writeMoments: (name, m, v) => settled(() => native.writeMoments(handle, name, m, v)),
    stepCounts: () => settled(() => native.stepCounts(handle)),
    setStepCounts: (policy, value) => settled(() => native.setStepCounts(handle, policy, value)),
    setTrainable: (mode) => settled(() => native.setTrainable(handle, mode)),
    setThreads: (threads) => settled(() => native.setThreads(handle, threads)),
    addLora: (lora) => settled(() => native.addLora(handle, lora)),
    addValueHead: (seed) => settled(() => native.addValueHead(handle, seed)),
    makeReference: (threads, copy) => settled(() => native.makeReference(handle, threads, copy)),
    memory: () => settled(() => native.memory(handle)),
    sample(request, onToken) {
      const id = ++lastRequest;
      if (onToken) listeners.set(id, onToken);
      const reply = settled(() => native.sample(handle, id, { ...request, stream: onToken !== undefined })).finally(
        () => listeners.delete(id),
      );
      return { reply, cancel: () => native.cancel(handle, id) };
    },
    forward: (batch, wants) => settled(() => native.forward(handle, batch, wants)),
    backward: (pass, derivatives) => settled(() => native.backward(handle, pass, derivatives)),
    release: (pass) => settled(() => native.release(handle, pass)),
    step: (options) => settled(() => native.step(handle, options)),
    zeroGradients: () => settled(() => native.zeroGradients(handle)),
    readFlat: (what) => settled(() => native.readFlat(handle, what)),
    addFlat: (delta) => settled(() => native.addFlat(handle, delta)),
    close: () => settled(() => native.close(handle)),
  };
}

/** Argument errors are thrown at once by the native side, others reject: both become a rejection with an EngineError. */
async function settled<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (thrown) {
    throw EngineError.from(thrown);
  }
}
