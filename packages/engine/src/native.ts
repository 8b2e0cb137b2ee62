/** The functions of the native library (`native/src/napi/mod.rs`) and the data that goes in and out. Nothing here runs. */

export type Handle = { readonly __engineHandle: unique symbol };

export type RopeScaling =
  | { type: "linear"; factor: number }
  | {
      type: "llama3";
      factor: number;
      lowFrequency: number;
      highFrequency: number;
      originalMaxPositions: number;
    };

/** Shape and flavour of a decoder-only transformer. */
export interface EngineConfig {
  vocab: number;
  hidden: number;
  layers: number;
  heads: number;
  kvHeads: number;
  headDim: number;
  /** Width of the feed-forward block. */
  inter: number;
  maxPositions: number;
  norm: "rms" | "layer";
  normEps: number;
  mlp: "swiglu" | "gelu-tanh" | "gelu";
  position: "rope" | "learned";
  ropeTheta: number;
  ropeScaling: RopeScaling | undefined;
  tied: boolean;
  qkvBias: boolean;
  outBias: boolean;
  mlpBias: boolean;
  qkNorm: boolean;
  /** A token attends to itself and at most this many − 1 tokens before it. */
  slidingWindow: number | undefined;
}

export interface OpenOptions {
  threads: number;
  /** Sequences that decode together. */
  slots: number;
  /** For keys and values, running and cached. */
  cacheBytes: number;
}

export interface TensorSpec {
  name: string;
  /** 1 for vectors. */
  rows: number;
  cols: number;
  trainable: boolean;
  decay: boolean;
}

export interface EngineLora {
  rank: number;
  alpha: number;
  dropout: number;
  /** Of q, k, v, o, gate, up, down. */
  targets: readonly string[];
  seed: number;
}

export interface SampleOptions {
  tokens: Int32Array;
  temperature: number;
  topP: number;
  topK: number;
  minP: number;
  repetitionPenalty: number;
  maxTokens: number;
  stopTokens: Int32Array;
  seed: number;
}

export interface SampledReply {
  tokens: Int32Array;
  logprobs: Float32Array;
  finish: "stop" | "length" | "aborted";
  /** Prompt tokens that did not have to be computed. */
  cached: number;
}

export interface ForwardBatch {
  tokens: Int32Array;
  nodeStart: Int32Array;
  nodeParent: Int32Array;
  wanted: Uint8Array;
}

export interface ForwardWants {
  grad: boolean;
  entropy: boolean;
  values: boolean;
  hidden: boolean;
  /** False: the frozen base weights. */
  adapters: boolean;
  /** Of the copy that makeReference() made. */
  ofReference: boolean;
  recompute: boolean;
  temperature: number;
  /** Dropout in the adapters; undefined: none. */
  dropoutSeed: number | undefined;
}

export interface ForwardResult {
  logprobs: Float32Array;
  entropy?: Float32Array;
  values?: Float32Array;
  hidden?: Float32Array;
  /** With grad: to be given to backward() or release(). */
  pass?: number;
}

export interface EngineDerivatives {
  logprobs: Float32Array;
  entropy?: Float32Array | undefined;
  values?: Float32Array | undefined;
  valuesIntoTrunk: boolean;
}

export interface EngineStep {
  learningRate: number;
  valueLearningRate?: number | undefined;
  beta1: number;
  beta2: number;
  epsilon: number;
  weightDecay: number;
  clipNorm?: number | undefined;
  scope: "all" | "policy" | "value";
}

export interface StepResult {
  gradNorm: number;
  applied: boolean;
}

export interface MemoryUse {
  model: number;
  reference: number;
  cache: number;
}

export interface NativeEngine {
  open(
    config: EngineConfig,
    options: OpenOptions,
    onTokens: (ids: number[], tokens: Int32Array, logprobs: Float32Array) => void,
  ): Promise<{ handle: Handle; simd: string }>;
  close(handle: Handle): Promise<void>;
  tensors(handle: Handle): Promise<TensorSpec[]>;
  setTensor(handle: Handle, name: string, data: Float32Array, ofReference: boolean): Promise<void>;
  readTensor(handle: Handle, what: "parameters" | "reference" | "gradients", name: string): Promise<Float32Array>;
  readTensor(handle: Handle, what: "moments", name: string): Promise<[Float32Array, Float32Array]>;
  writeMoments(handle: Handle, name: string, m: Float32Array, v: Float32Array): Promise<void>;
  stepCounts(handle: Handle): Promise<[number, number]>;
  setStepCounts(handle: Handle, policy: number, value: number): Promise<void>;
  setTrainable(handle: Handle, mode: "none" | "full" | "adapters"): Promise<void>;
  setThreads(handle: Handle, threads: number): Promise<void>;
  addLora(handle: Handle, lora: EngineLora): Promise<void>;
  addValueHead(handle: Handle, seed: number): Promise<void>;
  makeReference(handle: Handle, threads: number, copy: boolean): Promise<void>;
  memory(handle: Handle): Promise<MemoryUse>;
  sample(handle: Handle, id: number, request: SampleOptions & { stream: boolean }): Promise<SampledReply>;
  cancel(handle: Handle, id: number): void;
  forward(handle: Handle, batch: ForwardBatch, wants: ForwardWants): Promise<ForwardResult>;
  backward(handle: Handle, pass: number, derivatives: EngineDerivatives): Promise<void>;
  release(handle: Handle, pass: number): Promise<void>;
  step(handle: Handle, options: EngineStep): Promise<StepResult>;
  zeroGradients(handle: Handle): Promise<void>;
  readFlat(handle: Handle, what: "parameters" | "gradients"): Promise<Float32Array>;
  addFlat(handle: Handle, delta: Float32Array): Promise<void>;
}
