import type { ChainState } from "../conversation/chain.ts";
import type { Message } from "../conversation/message.ts";
import type { TemplateVariables } from "../conversation/template-variables.ts";
import type { TokenTree } from "../conversation/token-tree.ts";
import type { ToolDefinition } from "../conversation/tool-definition.ts";
import type { ChainStart } from "../conversation/trajectory.ts";
import type { ByteAutomaton, Constrained } from "./constraint.ts";
import type { Sample, SampleRequest, SampleToken } from "./sample.ts";
import type { SnapshotFiles } from "./stored-file.ts";

export type { Sample, SampleRequest, SampleToken, Sampling, TokenLogprob } from "./sample.ts";
export { defaultSampling, isShaped, shortened } from "./sample.ts";
export type { SnapshotFiles, StoredFile } from "./stored-file.ts";
export type { ByteAutomaton, Constrained, TokenTree };

/**
 * The name of a policy's weights: of what was loaded, and of every change since. Equal names are equal weights; a run that is resumed
 * gives its weights the names they would have had.
 */
export type Version = string;

export interface ForwardOptions {
  /** Keep what backward() needs. Default true. */
  grad?: boolean;
  entropy?: boolean;
  values?: boolean;
  hidden?: boolean;
  /** The temperature the tokens were sampled at. Default 1. */
  temperature?: number;
  /** Trade time for memory: keep only each layer's input and recompute the rest in backward(). */
  recompute?: boolean;
}

/** Per-token results in tree order. Give it to backward() or release() exactly once when it was made with grad. */
export interface Forward {
  /** 0 where not wanted. */
  logprobs: Float32Array;
  entropy?: Float32Array;
  /** The value head on the hidden state *at* each token: the value of the state after it. */
  values?: Float32Array;
  /** [tokens × hiddenSize], after the final norm. */
  hidden?: Float32Array;
  release(): void;
}

/** Derivatives of the loss, in tree order. */
export interface Derivatives {
  logprobs?: Float32Array;
  entropy?: Float32Array;
  values?: Float32Array;
  /** Whether the value loss also moves the language model (default true) or the value head alone. */
  valuesIntoTrunk?: boolean;
}

export interface StepOptions {
  learningRate: number;
  /** Defaults to learningRate. */
  valueLearningRate?: number;
  /** LoRA+: the rate of the adapter's B matrices over that of A. Default 1; anything else only where `capabilities.loraPlus`. */
  loraPlusRatio?: number;
  beta1?: number;
  beta2?: number;
  epsilon?: number;
  weightDecay?: number;
  clipNorm?: number;
  /** Which parameters move. Default "all". */
  scope?: "all" | "policy" | "value";
}

export interface StepReport extends WeightsChange {
  /** Global norm before clipping. */
  gradNorm: number;
  /** False when the gradient was not finite: nothing moved and the gradient was cleared. */
  applied: boolean;
}

/** What came of a change of the weights. */
export interface WeightsChange {
  version: Version;
  /** True when requests were held back for it: there was no memory for a second version beside that of running replies. */
  drained: boolean;
}

/** A number for each trainable parameter, in the order of the engine, which keeps it: at 8 billion it fits nowhere else. */
export interface ParameterVector {
  readonly length: number;
  dot(other: ParameterVector): Promise<number>;
  /** this ← this + scale · other */
  add(other: ParameterVector, scale?: number): Promise<void>;
  scale(by: number): Promise<void>;
  copy(): Promise<ParameterVector>;
  /** All of it, brought here. */
  read(): Promise<Float32Array>;
  release(): void;
}

export interface LoraOptions {
  rank: number;
  /** The adapter's output is scaled by alpha / rank. */
  alpha: number;
  /** Another alpha for modules whose name ends so: `{ v_proj: 32 }`. The same in every block. */
  alphaPattern?: Readonly<Record<string, number>> | undefined;
  dropout: number;
  /** Hugging Face module names: q_proj, v_proj, c_attn, …; "all-linear" for every linear layer. */
  targetModules: readonly string[] | "all-linear";
}

export interface ModelInfo {
  /** The path or hub id it was loaded from. */
  name: string;
  /** Of the numbers it was opened with, the same in every process. */
  digest: string;
  architecture: string;
  parameters: number;
  trainableParameters: number;
  hiddenSize: number;
  layers: number;
  vocabSize: number;
  contextLength: number;
  /** Tokens that end a reply. */
  endTokens: readonly number[];
  lora?: LoraOptions;
  /** What the optimiser's moments are kept as, where that is not f32. */
  moments?: "bf16";
  /** What gradients are computed from, where that is not f32. */
  gradients?: "bf16";
  valueHead: boolean;
  stub: boolean;
}

export interface RenderOptions {
  tools?: readonly ToolDefinition[] | undefined;
  /** What the template is told beside: `{ enable_thinking: false }`. */
  templateVariables?: TemplateVariables | undefined;
  /** End with the opening of an assistant turn. */
  addGenerationPrompt?: boolean;
}

/** A stretch of a rendered conversation. `message` is the index of the message it came from. */
export interface TokenSegment {
  tokens: Int32Array;
  message: number;
  /** True on what the assistant itself would write: content and the end-of-turn token, not the template around it. */
  generated: boolean;
  /** On what the assistant wrote: the control tokens that a message only spells, as `<tool_call>` in a content. They are plain text here. */
  spelt?: readonly string[];
}

/** The tokens of a prompt: only those that a chain lacks, or all of them and why the chain could not go on. */
export type Extension =
  | { kind: "append"; tokens: Int32Array }
  | { kind: "restart"; tokens: Int32Array; reason: ChainStart };

/**
 * Everything that somebody wrote (contents, names, tool calls and definitions, variables) is encoded as plain text, whatever it
 * spells; only the chat template makes control tokens. Control tokens are all added tokens, special or not.
 */
export interface ChatTokenizer {
  readonly vocabSize: number;
  /** Put before plain text by models that were trained so; chat prompts get it from their template. */
  readonly bosToken?: number | undefined;
  /** Plain text. With `control`, control tokens spelt in it are recognised: never for text that somebody else wrote. */
  encode(text: string, options?: { control?: boolean }): Int32Array;
  decode(tokens: ArrayLike<number>, options?: { skipSpecial?: boolean }): string;
  /** The conversation as the chat template prints it, to be read; encoding it again would make tokens of what it only spells. */
  render(messages: readonly Message[], options?: RenderOptions): string;
  /** The conversation in token segments, for supervised masks. Their concatenation is what sampling would have seen. */
  segments(messages: readonly Message[], options?: RenderOptions): TokenSegment[];
  /**
   * The tokens that turn a chain into the prompt of `messages`, or a first prompt. A chain goes on when the messages begin with
   * what it stands for: then only what the template prints after the last sampled token is new, and it costs what a few messages cost, however long the chain is.
   */
  extend(chain: ChainState | undefined, messages: readonly Message[], options?: RenderOptions): Extension;
}

/** What a reference is made of: the weights as they are now, an adapter included; the model without its adapter, or as it was opened; or a folder that save(), snapshot() or Reference.save() wrote. */
export type ReferenceOf = "present" | "base" | { from: string };

/** Frozen weights to compare with, whatever becomes of the policy's own. Takes memory only for what differs from these. */
export interface Reference {
  readonly version: Version;
  logprobs(batch: TokenTree, options?: { temperature?: number }): Promise<Float32Array>;
  /** Moves it towards the policy, for a moving average: this ← decay·this + (1 − decay)·policy. */
  blend(decay: number): Promise<void>;
  /** Writes what `{ from: dir }` needs to make it again; no weights where those of the model's own files are meant. */
  save(dir: string): Promise<SnapshotFiles>;
  close(): Promise<void>;
}

/** What training will need, in bytes. */
export interface MemoryPlan {
  weights: number;
  /** Gradients and the optimiser's moments of what is trained. */
  optimiser: number;
  /** A reference, once the weights have moved away from it. */
  reference: number;
  /** What rewards are told the likelihood of replies by: the model as it was opened, or without its adapter, which needs no copy. */
  scorer: number;
  /** What is trained, as it was before a step that may be taken back. */
  undo: number;
  /** What one forward pass of `tokenBudget` tokens keeps for the backward pass. */
  activations: number;
  /** While a checkpoint is written, tensor by tensor: the largest of what is trained, with its moments. */
  saving: number;
  /** For the keys and values of conversations. */
  cache: number;
  /** For activations and logits of sampling that training goes on from, at most; less where memory is short. */
  keptActivations: number;
  total: number;
  available: number;
}

export interface PlanOptions {
  tokenBudget: number;
  recompute: boolean;
  reference: boolean;
  /** A reward asks how likely replies are, and no reference holds the same weights already. Default false. */
  scorer?: boolean;
  /** A step that goes too far is taken back. Default false. */
  undo?: boolean;
}

/** What an engine can do. The loop asks before it begins, and corrects for what is not exact. */
export interface Capabilities {
  /** Sampling and scoring give the same bits, so that the first importance ratio is exactly 1. */
  exact: boolean;
  /** The same request on the same weights gives the same sample. */
  seeded: boolean;
  /** What forward() can be asked for. */
  entropy: boolean;
  values: boolean;
  hidden: boolean;
  /** vector() and moveTo(). */
  vectors: boolean;
  /** Processes that share a pass: a micro-batch has the token budget of each. Default 1. */
  ranks?: number;
  /** How many passes to keep alive, so that the engine has work while a loss is computed here. Default 1. */
  passesInFlight?: number;
  /** step() takes `loraPlusRatio`. */
  loraPlus?: boolean;
  /** sample() takes `constraint`. */
  constrain?: boolean;
  /** sample() takes `promptLogprobs`. */
  promptLogprobs?: boolean;
  /** There is an embed(). */
  embed?: boolean;
}

export interface SamplerStats {
  running: number;
  waiting: number;
  /** Replies that can be sampled together. */
  slots: number;
  /** Memory of keys and values, running and kept. */
  cacheBytes: number;
  /** Since the policy was opened: prompt tokens asked for, those of them that did not have to be computed, tokens sampled. */
  promptTokens: number;
  cachedTokens: number;
  sampledTokens: number;
  /** Of passes with gradients since then, where the engine goes on from sampling: their tokens, and those of them that did not have to be computed. */
  trainedTokens?: number;
  reusedTokens?: number;
  /** Weights that are alive: the present ones and those of replies that began before a change. */
  versions: number;
  /** The engine stopped after a failure of its own: every call is refused with ENGINE_FAILED, until the model is opened anew. */
  failed?: boolean;
}

export interface SampleOptions {
  signal?: AbortSignal;
  onToken?: (token: SampleToken) => void;
}

/** The half of a policy that talks. */
export interface Sampler {
  readonly model: ModelInfo;
  readonly tokenizer: ChatTokenizer;
  /** Of the weights that a request made now will get. */
  readonly version: Version;
  readonly capabilities: Capabilities;
  /** A request is answered by the weights that were present when it was made, from its first token to its last. */
  sample(requests: readonly SampleRequest[], options?: SampleOptions): Promise<Sample[]>;
  /**
   * The mean of each text's final hidden states, as forward() gives them, where `capabilities.embed`. Texts are computed piece by piece
   * between the steps of running replies, and kept for no one. Rejects with ABORTED when the signal fires.
   */
  embed?(texts: readonly Int32Array[], options?: { signal?: AbortSignal | undefined }): Promise<Float32Array[]>;
  /** At once, also while the engine is at work. */
  stats(): SamplerStats;
  close(): Promise<void>;
}

/** The half that learns. Whatever changes weights changes them whole: nobody sees a mixture, and running replies keep those they began with. */
export interface Trainer {
  forward(batch: TokenTree, options?: ForwardOptions): Promise<Forward>;
  /** Adds to the gradients. Losses are sums; the caller divides by the global count. */
  backward(pass: Forward, derivatives: Derivatives): Promise<void>;
  step(options: StepOptions): Promise<StepReport>;
  zeroGradients(): Promise<void>;
  /** Several may be alive at once. Default "present". */
  reference(of?: ReferenceOf): Promise<Reference>;
  /** Adds a scalar head on the final hidden state, at zero: every value is exactly 0 until it learns (no-op when there is one). */
  addValueHead(): Promise<void>;
  /** A copy of the trainable parameters, or of their gradients, as one vector: for TRPO, EWC, a step that is taken back. */
  vector(of: "parameters" | "gradients"): Promise<ParameterVector>;
  /** The trainable parameters become what the vector holds. The optimiser keeps its moments. */
  moveTo(vector: ParameterVector): Promise<WeightsChange>;
  /**
   * Hugging Face layout; an adapter in PEFT layout unless `merge`. Whole weights are f32 unless `dtype` says "bf16", which takes half
   * the room and rounds what was trained.
   */
  save(dir: string, options?: { merge?: boolean; dtype?: "f32" | "bf16" }): Promise<void>;
  /**
   * The whole model, an adapter merged, as one GGUF file (replaced once the new one is complete), where the engine can. `type` is that of
   * the matrices, default "f16"; `halved` are those that are f16 in a q8_0 file, since their rows are no multiple of 32.
   */
  saveGguf?(file: string, options?: SaveGgufOptions): Promise<{ halved: string[] }>;
  /** Other weights of the same shape: a folder that save() or snapshot() wrote. The optimiser begins anew with them. */
  load(dir: string): Promise<WeightsChange>;
  /** Everything needed to go on, on the embedded engine bit for bit: trainable weights, moments, step count, random state. */
  snapshot(dir: string): Promise<SnapshotFiles>;
  restore(dir: string): Promise<WeightsChange>;
  plan(options: PlanOptions): MemoryPlan;
}

/** What the matrices of a GGUF file are written as. */
export type GgufType = "f32" | "f16" | "q8_0";

export interface SaveGgufOptions {
  type?: GgufType;
  onProgress?: (progress: WriteProgress) => void;
}

/** How much of a file is written. */
export interface WriteProgress {
  bytes: number;
  total: number;
}

/** What every engine offers. Engines know transformers; algorithms live elsewhere. */
export interface Policy extends Sampler, Trainer {
  /**
   * Of an engine in processes of its own: after WORKER_LOST, starts them anew with the model as it was opened; what comes next is restore().
   * Does nothing where none was lost.
   */
  revive?(): Promise<void>;
}
