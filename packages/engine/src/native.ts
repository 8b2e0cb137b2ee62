/** The functions of the native library (`native/src/napi/mod.rs`) and the data that goes in and out. Nothing here runs. */

export type Handle = { readonly __engineHandle: unique symbol };
/** A forward pass that backward() can still use. Freed by backward(), release(), or when it is forgotten. */
export type PassHandle = { readonly __enginePass: unique symbol };
export type WeightsHandle = { readonly __engineWeights: unique symbol };
export type LoadHandle = { readonly __engineLoad: unique symbol };

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
  /** The weights of "rms-plus-one" are kept as what they are above one (Gemma). */
  norm: "rms" | "rms-plus-one" | "layer";
  normEps: number;
  mlp: "swiglu" | "geglu" | "gelu-tanh" | "gelu";
  position: "rope" | "learned";
  ropeTheta: number;
  ropeScaling: RopeScaling | undefined;
  /** How many numbers at the start of each head are rotated. Default: all of them. */
  rotaryDim?: number | undefined;
  tied: boolean;
  qkvBias: boolean;
  outBias: boolean;
  mlpBias: boolean;
  qkNorm: boolean;
  /** What attention and the feed-forward block give is normed, too, before it is added to the stream (Gemma). */
  postNorm?: boolean | undefined;
  /** Token embeddings are multiplied by it. Default 1. */
  embeddingScale?: number | undefined;
  /** What attention and the feed-forward block give is multiplied by it before it is added to the stream. Default 1. */
  residualScale?: number | undefined;
  /** Logits are multiplied by it. Default 1. */
  logitScale?: number | undefined;
  /** Scores are multiplied by it. Default 1/√headDim. */
  attentionScale?: number | undefined;
  /** A token attends to itself and at most this many − 1 tokens before it. */
  slidingWindow: number | undefined;
  /** Layers that attend to everything before them in spite of the window. */
  fullLayers?: readonly number[] | undefined;
  /** Of the layers with a window, where it is another one than ropeTheta; without scaling (Gemma 3). */
  localRopeTheta?: number | undefined;
  /** Layers whose queries and keys are not rotated (SmolLM3). */
  unrotatedLayers?: readonly number[] | undefined;
}

/** How the numbers of a matrix lie in memory: by themselves, or as the blocks of a GGUF file of that type. */
export type WeightForm = "f32" | "bf16" | "f16" | "q8_0" | "q4_0" | "q4_1" | "q5_0" | "q5_1" | "q4_k" | "q5_k" | "q6_k";

export interface OpenOptions {
  threads: number;
  /** Sequences that decode together. */
  slots: number;
  /** For keys and values, running and cached. */
  cacheBytes: number;
  /** Requests that may wait beside those that have a slot; a further one fails with BUSY. Default: any number. */
  maxWaiting?: number | undefined;
  /**
   * For weights that only running replies still need after a change. A change for which there is no room waits for these replies
   * instead. Default: what the machine has free at that time, where the engine can tell (Linux).
   */
  versionBytes?: number | undefined;
  /** For activations and logits of sampling that training passes go on from, where requests ask for them to be kept. Default 0: none. */
  activationBytes?: number | undefined;
  /** How long such a change waits before it fails with DRAIN_TIMEOUT. Default 30,000. */
  drainMs?: number | undefined;
  /** Matrices of the base model to be kept in another form than f32, by their names. Such a model is trained by adapters alone. */
  forms?: Readonly<Record<string, WeightForm>> | undefined;
  /** What AdamW's two moments are kept as; bf16 is rounded by chance, so that nothing is lost on average. Default f32. */
  moments?: "f32" | "bf16" | undefined;
  /** What the products of the backward pass take their operands as; only an AMX unit is faster with bf16. Default f32. */
  gradients?: "f32" | "bf16" | undefined;
}

/** `OpenOptions` as the native side takes them: names of tensors and forms in turn. */
export interface NativeOpenOptions extends Omit<OpenOptions, "forms"> {
  forms: readonly string[];
}

/** What a change of the weights answers. */
export interface WeightChange {
  /** Of the weights that are the present ones now. Goes up with every change. */
  version: number;
  /** Whether requests were held back for it, because there was no memory for two versions. */
  drained: boolean;
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
  /** In place of alpha, by target. */
  alphas?: Readonly<Record<string, number>>;
  dropout: number;
  /** Of q, k, v, o, gate, up, down. */
  targets: readonly string[];
  seed: number;
}

/** All but the temperature only chooses: recorded log-probs are those of the temperature-scaled distribution, as forward() gives them. */
export interface SampleOptions {
  tokens: Int32Array;
  /** Prefixes that are kept, or being computed, are shared within a namespace alone. Default "". */
  namespace?: string | undefined;
  temperature: number;
  topP: number;
  topK: number;
  minP: number;
  repetitionPenalty: number;
  /** Taken off the logit of each token that the reply holds. */
  presencePenalty?: number | undefined;
  /** Taken off the logit of a token for each time the reply holds it. */
  frequencyPenalty?: number | undefined;
  /** Added to the logits of these tokens. */
  logitBias?: ReadonlyMap<number, number> | undefined;
  /** 0: nothing is drawn, the prompt is only run. */
  maxTokens: number;
  /** No stop token is drawn before this many tokens. */
  minTokens?: number | undefined;
  stopTokens: Int32Array;
  seed: number;
  /** How many of the likeliest tokens to report for each position. */
  topLogprobs?: number | undefined;
  /** Report log-probs under what was really drawn from, too. */
  samplerLogprobs?: boolean | undefined;
  /** Report log-probs of the prompt's tokens, and so many of the likeliest ones in their places; all of the prompt is run for it. */
  promptLogprobs?: number | undefined;
  /** What the reply may be: the number of a table that setConstraint() gave the model. */
  constraint?: number | undefined;
  /** Keep what a training pass would compute of these tokens, where there is room, until the weights change. Default false. */
  keepActivations?: boolean | undefined;
}

/** `SampleOptions` as the native side takes them. */
export interface NativeSampleOptions extends Omit<SampleOptions, "logitBias"> {
  biasTokens: Int32Array | undefined;
  biasLogits: Float32Array | undefined;
  stream: boolean;
}

/** What was asked for beside tokens and log-probs. */
export interface SampledExtras {
  /** Of the drawn tokens, with penalties, bias and truncation; equal to the recorded ones where nothing shaped the draw. */
  samplerLogprobs?: Float32Array;
  /** The likeliest tokens, best first, and their log-probs under the recorded distribution; as many for each position. */
  topTokens?: Int32Array;
  topLogprobs?: Float32Array;
  /** Of a request with a constraint: 1 where it left one token, and the probability of all that could not be drawn. */
  forced?: Int32Array;
  removed?: Float32Array;
}

/** What the tokens spell, one after the other; `ends` are the places in `bytes` where they end. */
export interface VocabularyBytes {
  bytes: Uint8Array;
  ends: Int32Array;
  /** 0: it spells nothing; 1: text; 2: a control token. */
  kinds: Uint8Array;
}

/** What a reply may be, byte by byte, as an automaton that begins in state 0. */
export interface ConstraintTable {
  /** The ranges of state i are numbers `starts[i]` up to, without it, `starts[i + 1]`. */
  starts: Int32Array;
  /** First and last byte of each range, in order within a state. */
  ranges: Uint8Array;
  /** The state that each range leads to. */
  targets: Int32Array;
  /** By state: 1 free (words, where control tokens may be drawn), 2 the reply may end, 4 a control token may be drawn if its spelling fits. */
  flags: Uint8Array;
}

export interface SampledReply extends SampledExtras {
  tokens: Int32Array;
  logprobs: Float32Array;
  finish: "stop" | "length" | "aborted";
  /** Prompt tokens that did not have to be computed. */
  cached: number;
  /** From the call to the request's first place in a decoding step. */
  queuedMs: number;
  /** The weights that drew every one of the tokens. */
  version: number;
  /** Of the prompt's tokens, as forward() gives them, where they were asked for. */
  promptLogprobs?: Float32Array;
  /** Of every position of the prompt but the first, as many for each. */
  promptTopTokens?: Int32Array;
  promptTopLogprobs?: Float32Array;
}

export interface EmbeddedText {
  /** Of the hidden states after the final norm; left out when it was cancelled. */
  mean?: Float32Array;
  finish: "length" | "aborted";
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
  /** False: the base weights alone. */
  adapters: boolean;
  /** Of weights that were retained, instead of the present ones; without grad. */
  weights?: WeightsHandle | undefined;
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
  pass?: PassHandle;
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
  /** Rate of the adapters' B over that of A. Default 1. */
  loraPlusRatio?: number | undefined;
  beta1: number;
  beta2: number;
  epsilon: number;
  weightDecay: number;
  clipNorm?: number | undefined;
  scope: "all" | "policy" | "value";
}

export interface StepResult extends WeightChange {
  gradNorm: number;
  applied: boolean;
}

/** Bytes. */
export interface MemoryUse {
  /** The present weights, gradients, moments, scratch. */
  model: number;
  /** What forward passes keep for backward. */
  passes: number;
  /** What retained weights and loads hold beside the present weights. */
  retained: number;
  /** What only running replies still hold: earlier versions. */
  versions: number;
  cache: number;
  /** Reserved for activations of sampling. */
  activations: number;
}

export interface EngineStats {
  /** Requests that decode. */
  running: number;
  /** Requests that wait for a slot. */
  waiting: number;
  slots: number;
  cacheBytes: number;
  /** Decoding steps so far. */
  steps: number;
  /** Of requests that got a slot, so far. */
  promptTokens: number;
  /** Of these, what did not have to be computed. */
  cachedTokens: number;
  sampledTokens: number;
  /** Reserved for activations of sampling. */
  activationBytes: number;
  /** Of forward passes with gradients, so far. */
  trainedTokens: number;
  /** Of these, what sampling had computed. */
  reusedTokens: number;
  /** Of the present weights. */
  version: number;
  /** Versions in use: the present one and those of replies that began earlier. */
  versions: number;
  /** Changes of the weights for which requests were held back. */
  drains: number;
  /** The engine stopped after a failure of its own: every call is refused with ENGINE_FAILED, and the model must be opened anew. */
  failed: boolean;
}

export interface NativeEngine {
  open(
    config: EngineConfig,
    options: NativeOpenOptions,
    onTokens: (
      ids: number[],
      tokens: Int32Array,
      logprobs: Float32Array,
      extras: readonly SampledExtras[] | undefined,
    ) => void,
  ): Promise<{ handle: Handle; simd: string; gainsByBf16: boolean }>;
  close(handle: Handle): Promise<void>;
  tensors(handle: Handle): Promise<TensorSpec[]>;
  setTensor(handle: Handle, name: string, data: Float32Array): Promise<WeightChange>;
  readTensor(
    handle: Handle,
    what: "parameters" | "gradients",
    name: string,
    weights?: WeightsHandle,
  ): Promise<Float32Array>;
  readTensor(
    handle: Handle,
    what: "moments",
    name: string,
    weights: WeightsHandle,
  ): Promise<[Float32Array, Float32Array]>;
  setTrainable(handle: Handle, mode: "none" | "full" | "adapters"): Promise<void>;
  setThreads(handle: Handle, threads: number): Promise<void>;
  /** `alphas` in the order of the targets. */
  addLora(handle: Handle, lora: Omit<EngineLora, "alpha" | "alphas"> & { alphas: Float32Array }): Promise<WeightChange>;
  addValueHead(handle: Handle): Promise<void>;
  retain(handle: Handle, training: false): Promise<{ weights: WeightsHandle; version: number }>;
  retain(handle: Handle, training: true): Promise<{ weights: WeightsHandle; version: number; steps: [number, number] }>;
  blend(handle: Handle, weights: WeightsHandle, decay: number): Promise<{ version: number; present: number }>;
  digest(handle: Handle, weights?: WeightsHandle): Promise<string>;
  beginLoad(handle: Handle, beside: boolean): Promise<LoadHandle>;
  loadTensor(handle: Handle, load: LoadHandle, name: string, data: Float32Array | Uint8Array): Promise<void>;
  loadMoments(handle: Handle, load: LoadHandle, name: string, m: Float32Array, v: Float32Array): Promise<void>;
  loadSteps(handle: Handle, load: LoadHandle, policy: number, value: number): Promise<void>;
  commitLoad(handle: Handle, load: LoadHandle): Promise<WeightChange>;
  keepLoad(handle: Handle, load: LoadHandle): Promise<{ weights: WeightsHandle; version: number }>;
  release(handle: Handle, held: PassHandle | WeightsHandle | LoadHandle): Promise<void>;
  memory(handle: Handle): Promise<MemoryUse>;
  stats(handle: Handle): EngineStats;
  sample(handle: Handle, id: number, request: NativeSampleOptions): Promise<SampledReply>;
  embed(handle: Handle, id: number, tokens: Int32Array): Promise<EmbeddedText>;
  cancel(handle: Handle, id: number): void;
  setVocabulary(handle: Handle, bytes: Uint8Array, ends: Int32Array, kinds: Uint8Array): void;
  setConstraint(handle: Handle, id: number, table: ConstraintTable | undefined): void;
  forward(handle: Handle, batch: ForwardBatch, wants: ForwardWants): Promise<ForwardResult>;
  backward(handle: Handle, pass: PassHandle, derivatives: EngineDerivatives): Promise<void>;
  step(handle: Handle, options: EngineStep): Promise<StepResult>;
  zeroGradients(handle: Handle): Promise<void>;
  readFlat(handle: Handle, what: "parameters" | "gradients"): Promise<Float32Array>;
  writeFlat(handle: Handle, values: Float32Array): Promise<WeightChange>;
}
