import { EngineError } from "./error.ts";
import { loadNative } from "./load.ts";
import type {
  ConstraintTable,
  EmbeddedText,
  EngineConfig,
  EngineDerivatives,
  EngineLora,
  EngineStats,
  EngineStep,
  ForwardBatch,
  ForwardResult,
  ForwardWants,
  Handle,
  MemoryUse,
  NativeEngine,
  OpenOptions,
  PassHandle,
  SampledExtras,
  SampledReply,
  SampleOptions,
  StepResult,
  TensorSpec,
  VocabularyBytes,
  WeightChange,
} from "./native.ts";
import { settled } from "./settled.ts";
import {
  beginLoad,
  beginRetainedLoad,
  type RetainedLoad,
  type RetainedTraining,
  type RetainedWeights,
  retained,
  retainedTraining,
  type WeightsLoad,
} from "./weights.ts";

/** Called for each token of one request as it is drawn, with what was asked for beside it. */
export type TokenListener = (token: number, logprob: number, extras: SampledExtras | undefined) => void;

/**
 * A transformer in the engine. All work happens on a thread of its own, in the order of the calls, between two decoding steps.
 * A request belongs to the weights that were the present ones when it was made, from its first token to its last: a
 * change goes ahead beside running replies, and later requests get the new weights at once.
 */
export interface Model {
  /** What does the arithmetic: amx, avx512, avx2, neon or scalar. */
  readonly simd: string;
  /** Whether gradient products of bf16 are faster here than those of f32: by the AMX unit, or by AVX512-BF16. */
  readonly gainsByBf16: boolean;
  /** Of the present weights: goes up with every change. */
  readonly version: number;
  tensors(): Promise<TensorSpec[]>;
  /** Row-major [rows, cols]. A change of its own: to set many as one, see beginLoad(). */
  setTensor(name: string, data: Float32Array): Promise<WeightChange>;
  readTensor(name: string, what?: "parameters" | "gradients"): Promise<Float32Array>;
  setTrainable(mode: "none" | "full" | "adapters"): Promise<void>;
  setThreads(threads: number): Promise<void>;
  addLora(lora: EngineLora): Promise<WeightChange>;
  addValueHead(): Promise<void>;
  /** Sets many tensors as one change. */
  beginLoad(): Promise<WeightsLoad>;
  /** The present weights as they are now, without a copy. */
  retain(): Promise<RetainedWeights>;
  /** With the optimiser's state that belongs to them, all of one moment. A step beside it copies that state. */
  retainTraining(): Promise<RetainedTraining>;
  /** Weights to score with that are set tensor by tensor. */
  beginRetainedLoad(): Promise<RetainedLoad>;
  /** A name for the numbers of the present weights, the same in every process. The value head is not part of it. */
  digest(): Promise<string>;
  memory(): Promise<MemoryUse>;
  /** At once, also while the engine is at work. */
  stats(): EngineStats;
  /** `cancel` (see below) makes the promise resolve with what there is and finish "aborted". */
  sample(request: SampleOptions, onToken?: TokenListener): { reply: Promise<SampledReply>; cancel(): void };
  /** The mean of a text's hidden states. Takes a slot and goes in pieces between decoding steps, as a prompt does; keeps nothing. */
  embed(tokens: Int32Array): { reply: Promise<EmbeddedText>; cancel(): void };
  /** What the tokens spell: before the first constraint. */
  setVocabulary(vocabulary: VocabularyBytes): void;
  /** A table that requests name by this number; undefined takes it away, and requests that run keep theirs. */
  setConstraint(id: number, table: ConstraintTable | undefined): void;
  forward(batch: ForwardBatch, wants: ForwardWants): Promise<ForwardResult>;
  backward(pass: PassHandle, derivatives: EngineDerivatives): Promise<void>;
  release(pass: PassHandle): Promise<void>;
  step(options: EngineStep): Promise<StepResult>;
  zeroGradients(): Promise<void>;
  readFlat(what: "parameters" | "gradients"): Promise<Float32Array>;
  /** The trainable parameters become these, in the order of readFlat(). */
  writeFlat(values: Float32Array): Promise<WeightChange>;
  /** Frees the model. Later calls, and work that was still waiting, fail with the code CLOSED. */
  close(): Promise<void>;
}

let lastRequest = 0;

/** Reserves a model of this shape; its parameters are zero until they are set. */
export async function openModel(config: EngineConfig, { forms = {}, ...options }: OpenOptions): Promise<Model> {
  const native = loadNative();
  // The native side holds this map's callback, not the model, so that a forgotten model can be collected.
  const listeners = new Map<number, TokenListener>();
  const { handle, simd, gainsByBf16 } = await settled(() =>
    native.open(config, { ...options, forms: Object.entries(forms).flat() }, (ids, tokens, logprobs, extras) => {
      ids.forEach((id, i) => {
        listeners.get(id)?.(tokens[i]!, logprobs[i]!, extras?.[i]);
      });
    }),
  );
  return createModel(native, handle, { simd, gainsByBf16 }, listeners);
}

function createModel(
  native: NativeEngine,
  handle: Handle,
  machine: Pick<Model, "simd" | "gainsByBf16">,
  listeners: Map<number, TokenListener>,
): Model {
  return {
    ...machine,
    get version() {
      return native.stats(handle).version;
    },
    tensors: () => settled(() => native.tensors(handle)),
    setTensor: (name, data) => settled(() => native.setTensor(handle, name, data)),
    readTensor: (name, what = "parameters") => settled(() => native.readTensor(handle, what, name)),
    setTrainable: (mode) => settled(() => native.setTrainable(handle, mode)),
    setThreads: (threads) => settled(() => native.setThreads(handle, threads)),
    addLora: ({ alpha, alphas, ...lora }) =>
      settled(() =>
        native.addLora(handle, {
          ...lora,
          alphas: Float32Array.from(lora.targets, (target) => alphas?.[target] ?? alpha),
        }),
      ),
    addValueHead: () => settled(() => native.addValueHead(handle)),
    beginLoad: () => beginLoad(native, handle),
    retain: async () => retained(native, handle, await settled(() => native.retain(handle, false))),
    retainTraining: async () => retainedTraining(native, handle, await settled(() => native.retain(handle, true))),
    beginRetainedLoad: () => beginRetainedLoad(native, handle),
    digest: () => settled(() => native.digest(handle)),
    memory: () => settled(() => native.memory(handle)),
    stats: () => native.stats(handle),
    sample({ logitBias, ...request }, onToken) {
      const id = ++lastRequest;
      if (onToken) listeners.set(id, onToken);
      const biased = logitBias !== undefined && logitBias.size > 0;
      const bias = {
        biasTokens: biased ? Int32Array.from(logitBias.keys()) : undefined,
        biasLogits: biased ? Float32Array.from(logitBias.values()) : undefined,
      };
      const asked = { ...request, ...bias, stream: onToken !== undefined };
      const reply = settled(() => native.sample(handle, id, asked)).finally(() => listeners.delete(id));
      return { reply, cancel: () => native.cancel(handle, id) };
    },
    embed(tokens) {
      const id = ++lastRequest;
      return { reply: settled(() => native.embed(handle, id, tokens)), cancel: () => native.cancel(handle, id) };
    },
    setVocabulary: ({ bytes, ends, kinds }) => atOnce(() => native.setVocabulary(handle, bytes, ends, kinds)),
    setConstraint: (id, table) => atOnce(() => native.setConstraint(handle, id, table)),
    forward: (batch, wants) => settled(() => native.forward(handle, batch, wants)),
    backward: (pass, derivatives) => settled(() => native.backward(handle, pass, derivatives)),
    release: (pass) => settled(() => native.release(handle, pass)),
    step: (options) => settled(() => native.step(handle, options)),
    zeroGradients: () => settled(() => native.zeroGradients(handle)),
    readFlat: (what) => settled(() => native.readFlat(handle, what)),
    writeFlat: (values) => settled(() => native.writeFlat(handle, values)),
    close: () => settled(() => native.close(handle)),
  };
}

/** What is done while the caller waits. */
function atOnce(call: () => void): void {
  try {
    call();
  } catch (thrown) {
    throw EngineError.from(thrown);
  }
}
