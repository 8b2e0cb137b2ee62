import { StatesetError } from "../../error.ts";
import type { JsonObject } from "../tokenizer/model-json.ts";
import { quoted } from "../weights/invalid-model.ts";
import type { GgufHeader } from "./gguf-header.ts";
import { MetadataReader } from "./gguf-metadata.ts";

const classes = {
  llama: "LlamaForCausalLM",
  mistral: "MistralForCausalLM",
  qwen2: "Qwen2ForCausalLM",
  qwen3: "Qwen3ForCausalLM",
  gpt2: "GPT2LMHeadModel",
} as const;

/** Metadata that changes what a model computes and that the engine has nothing for; 0 asks for nothing. */
const unknownLimits = [
  ...["expert_count", "attention.scale", "attention.clamp_kqv", "attention.max_alibi_bias"],
  ...["attn_logit_softcapping", "final_logit_softcapping"],
];
/** The same, of what is multiplied with: 1 asks for nothing either. */
const unknownFactors = ["logit_scale", "embedding_scale", "residual_scale", "rope.scaling.attn_factor"];

export const joinParts =
  "Join them with llama.cpp: llama-gguf-split --merge <first part> <whole>.gguf, and name the whole.";

/** config.json of a GGUF file, as the model's own folder has it. `ropeFactors` are those of rope_freqs.weight, where there are any. */
export function configFromGguf(
  { metadata, tensors }: GgufHeader,
  file: string,
  ropeFactors: Float32Array | undefined,
): JsonObject {
  const meta = new MetadataReader(metadata, file);
  refuseParts(meta, tensors.size);
  const architecture = meta.required("general.architecture", meta.text("general.architecture"));
  if (!["llama", "qwen2", "qwen3", "gpt2"].includes(architecture)) {
    throw unsupported(
      file,
      `a model of the architecture ${quoted(architecture)}`,
      "llama, qwen2, qwen3 and gpt2 are read.",
    );
  }
  const read = new Keys(meta, architecture);
  for (const name of [...unknownLimits, ...unknownFactors]) {
    const value = read.number(name, 0);
    const changesNothing = value === 0 || (value === 1 && unknownFactors.includes(name));
    if (!changesNothing) throw unsupported(file, `${quoted(read.key(name))} = ${value}`);
  }
  const embedding = tensors.get("token_embd.weight");
  if (embedding?.shape.length !== 2) {
    throw new StatesetError("MODEL_INVALID", `${file} has no matrix "token_embd.weight".`);
  }
  const common = {
    vocab_size: embedding.shape[0],
    tie_word_embeddings: !tensors.has("output.weight"),
    ...tokenIds(meta),
    torch_dtype: "float32",
  };
  return architecture === "gpt2"
    ? { ...gpt2(read), ...common }
    : { ...llamaLike(architecture as "llama", read, tensors, ropeFactors), ...common };
}

/** Files that go with a model and are none: the file says so itself, if it says anything. */
function refuseParts(meta: MetadataReader, tensors: number): void {
  // First: such a part may have no weights, or nothing but this.
  const parts = meta.count("split.count") ?? 0;
  if (parts > 1) throw unsupported(meta.file, `one of ${parts} parts of a model`, joinParts);
  const [type, architecture] = [meta.text("general.type"), meta.text("general.architecture")];
  const { file } = meta;
  if (type === "adapter") {
    const hint = "Adapters are read in PEFT's layout: a folder with adapter_config.json and adapter_model.safetensors.";
    throw unsupported(file, "an adapter, no model", hint);
  }
  if (type === "mmproj" || architecture === "clip") {
    throw unsupported(file, "the part of a model that sees or hears", "Name the file of the language model beside it.");
  }
  if (tensors === 0) throw unsupported(file, "a vocabulary and no weights", "Name the file of a whole model.");
}

function gpt2(read: Keys): JsonObject {
  return {
    architectures: [classes.gpt2],
    model_type: "gpt2",
    activation_function: "gelu_new",
    n_embd: read.count("embedding_length"),
    n_layer: read.count("block_count"),
    n_head: read.count("attention.head_count"),
    n_positions: read.count("context_length"),
    n_inner: read.count("feed_forward_length"),
    layer_norm_epsilon: read.number("attention.layer_norm_epsilon"),
  };
}

function llamaLike(
  architecture: "llama" | "qwen2" | "qwen3",
  read: Keys,
  tensors: GgufHeader["tensors"],
  ropeFactors: Float32Array | undefined,
): JsonObject {
  const hidden = read.count("embedding_length");
  const heads = read.count("attention.head_count");
  const headDim = read.count("attention.key_length", Math.floor(hidden / Math.max(1, heads)));
  const { file } = read.meta;
  if (read.count("attention.value_length", headDim) !== headDim) throw unsupported(file, "values wider than keys");
  if (read.count("rope.dimension_count", headDim) !== headDim)
    throw unsupported(file, "rotation of only a part of a head");
  const contextLength = read.count("context_length");
  const window = read.count("attention.sliding_window", 0);
  const windowed = window > 0 && window < contextLength;
  // Mistral's files say that they are llamas.
  const type = architecture === "llama" && windowed ? "mistral" : architecture;
  const theta = read.number("rope.freq_base", 10_000);
  const scaling = ropeScaling(read, ropeFactors, theta, headDim);
  return {
    architectures: [classes[type]],
    model_type: type,
    hidden_act: "silu",
    hidden_size: hidden,
    intermediate_size: read.count("feed_forward_length"),
    num_hidden_layers: read.count("block_count"),
    num_attention_heads: heads,
    num_key_value_heads: read.count("attention.head_count_kv", heads),
    head_dim: headDim,
    max_position_embeddings: contextLength,
    rms_norm_eps: read.number("attention.layer_norm_rms_epsilon"),
    rope_theta: theta,
    ...(scaling && { rope_scaling: scaling }),
    ...(architecture !== "qwen2" && { attention_bias: tensors.has("blk.0.attn_q.bias") }),
    ...(architecture === "llama" && { mlp_bias: tensors.has("blk.0.ffn_up.bias") }),
    ...(windowed && { sliding_window: window }),
    ...(architecture !== "llama" && { use_sliding_window: windowed, max_window_layers: 0 }),
  };
}

function ropeScaling(
  read: Keys,
  factors: Float32Array | undefined,
  theta: number,
  headDim: number,
): JsonObject | undefined {
  if (factors) return llama3Scaling(read, factors, theta, headDim);
  const type = read.text("rope.scaling.type", "none");
  const factor = read.number("rope.scaling.factor", read.number("rope.scale_linear", 1));
  if (type === "none" ? factor === 1 : type === "linear" && factor === 1) return undefined;
  // Kinds that the engine does not have are refused by their names when the configuration is read.
  return { rope_type: type === "none" ? "linear" : type, factor };
}

/** As Llama 3.1 and 3.2 have it. Files hold the outcome, one number to divide each frequency by, and seldom the length. */
const llama3 = { low_freq_factor: 1, high_freq_factor: 4 };
const llama3Length = 8192;

function llama3Scaling(read: Keys, factors: Float32Array, theta: number, headDim: number): JsonObject | undefined {
  const factor = factors.reduce((largest, one) => Math.max(largest, one), 0);
  const length = read.count("rope.scaling.original_context_length", llama3Length);
  const scaling = { factor, ...llama3, original_max_position_embeddings: length };
  const wanted = llama3Factors(theta, 2 * factors.length, scaling);
  const same = 2 * factors.length === headDim && factors.every((one, i) => Math.abs(one / wanted[i]! - 1) < 1e-5);
  if (same) return factor === 1 ? undefined : { rope_type: "llama3", ...scaling };
  throw unsupported(read.meta.file, '"rope_freqs.weight" with factors that are not those of Llama 3');
}

export interface Llama3Scaling {
  factor: number;
  low_freq_factor: number;
  high_freq_factor: number;
  original_max_position_embeddings: number;
}

/** What each frequency is divided by: 1 for short waves, `factor` for long ones, in between a blend. [headDim / 2] */
export function llama3Factors(theta: number, headDim: number, scaling: Llama3Scaling): Float32Array {
  const { factor, low_freq_factor: low, high_freq_factor: high, original_max_position_embeddings: length } = scaling;
  return Float32Array.from({ length: headDim / 2 }, (_, i) => {
    const turns = length / (2 * Math.PI * theta ** ((2 * i) / headDim));
    if (turns > high) return 1;
    if (turns < low) return factor;
    const blend = (turns - low) / (high - low);
    return 1 / ((1 - blend) / factor + blend);
  });
}

function tokenIds(meta: MetadataReader): JsonObject {
  const ids = (["bos", "eos"] as const).map((role) => [
    `${role}_token_id`,
    meta.count(`tokenizer.ggml.${role}_token_id`),
  ]);
  return Object.fromEntries(ids.filter(([, id]) => id !== undefined)) as JsonObject;
}

function unsupported(
  file: string,
  what: string,
  hint = "Choose another model, or ask for this feature.",
): StatesetError {
  return new StatesetError("MODEL_UNSUPPORTED", `${file} holds ${what}, which is not supported.`, { hint });
}

/** Keys of one architecture. Without a fallback, what is absent is an error. */
class Keys {
  readonly meta: MetadataReader;
  readonly #architecture: string;

  constructor(meta: MetadataReader, architecture: string) {
    this.meta = meta;
    this.#architecture = architecture;
  }

  key(name: string): string {
    return `${this.#architecture}.${name}`;
  }

  count(name: string, fallback?: number): number {
    const key = this.key(name);
    return this.meta.required(key, this.meta.count(key) ?? fallback);
  }

  text(name: string, fallback: string): string {
    return this.meta.text(this.key(name)) ?? fallback;
  }

  number(name: string, fallback?: number): number {
    const key = this.key(name);
    return shortest(this.meta.required(key, this.meta.number(key) ?? fallback));
  }
}

/** The file holds 1e-5 as a 32-bit float, which reads as 0.000009999999747378752: the shortest number that is the same float. */
function shortest(value: number): number {
  for (let digits = 1; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === Math.fround(value)) return short;
  }
  return value;
}
