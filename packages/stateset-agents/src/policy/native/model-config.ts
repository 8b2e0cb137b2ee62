import { join } from "node:path";
import type { EngineConfig, RopeScaling } from "@stateset-agents/engine";
import { StatesetError } from "../../error.ts";
import { ggufOfFolder, isGgufFile } from "../gguf/find-gguf.ts";
import { readGgufConfig } from "../gguf/gguf-weights.ts";
import { isObject, type JsonObject, readJsonObject } from "../tokenizer/model-json.ts";
import { exists, isFolder } from "../what-lies-at.ts";
import { absentKeys } from "./absent-keys.ts";

export type Architecture = "gpt2" | "llama" | "mistral" | "qwen2" | "qwen3";

export interface ModelConfig {
  architecture: Architecture;
  engine: EngineConfig;
  /** config.json as it was, for saving. */
  json: JsonObject;
}

/** The engine's own limit. */
const mostLayers = 4096;

const architectures = ["gpt2", "llama", "mistral", "qwen2", "qwen3"] as const;

/** Reads config.json of a Hugging Face model folder, or what a GGUF file says instead. */
export async function readModelConfig(dir: string): Promise<ModelConfig> {
  if (await isGgufFile(dir)) return parseModelConfig(await readGgufConfig(dir), dir);
  const where = join(dir, "config.json");
  if (!(await exists(dir))) throw new StatesetError("MODEL_NOT_FOUND", `No model folder at ${dir}.`);
  if (!(await exists(where))) {
    const file = (await isFolder(dir)) ? await ggufOfFolder(dir) : undefined;
    if (file !== undefined) return readModelConfig(file);
    throw new StatesetError("MODEL_NOT_FOUND", `${dir} has no config.json.`, {
      hint: "Give a folder in Hugging Face layout (config.json, model.safetensors, tokenizer.json) or a .gguf file.",
    });
  }
  const json = await readJsonObject(dir, "config.json").catch((cause: unknown) => {
    throw new StatesetError("MODEL_INVALID", `${where} is not a JSON object.`, { cause });
  });
  return parseModelConfig(json!, where);
}

/** config.json in the style of transformers 4 (rope_theta) or 5 (rope_parameters). */
export function parseModelConfig(json: JsonObject, where: string): ModelConfig {
  const read = new ConfigReader(json, where);
  const type = json.model_type;
  const architecture = architectures.find((name) => name === type);
  if (!architecture) {
    throw new StatesetError(
      "MODEL_UNSUPPORTED",
      `${where} describes a model of type ${JSON.stringify(type ?? null)}.`,
      {
        hint: `The embedded engine runs ${architectures.join(", ")} (SmolLM2 is a llama).`,
      },
    );
  }
  if (isObject(json.quantization_config)) {
    throw read.unsupported(
      "quantised weights (quantization_config)",
      "Use the model's unquantised weights, or a GGUF file of it.",
    );
  }
  const engine = architecture === "gpt2" ? gpt2(read) : llamaLike(architecture, read);
  // Before anybody makes a list of the tensors: a damaged file can ask for millions.
  if (engine.layers > mostLayers)
    throw read.unsupported(`${engine.layers} layers`, `At most ${mostLayers} are supported.`);
  return { architecture, engine, json };
}

function gpt2(read: ConfigReader): EngineConfig {
  const hidden = read.size("n_embd", 768);
  const heads = read.size("n_head", 12);
  if (read.flag("scale_attn_by_inverse_layer_idx", false)) throw read.unsupported("scale_attn_by_inverse_layer_idx");
  if (!read.flag("scale_attn_weights", true)) throw read.unsupported("scale_attn_weights = false");
  if (read.flag("add_cross_attention", false)) throw read.unsupported("add_cross_attention");
  return {
    vocab: read.size("vocab_size", 50257),
    hidden,
    layers: read.size("n_layer", 12),
    heads,
    kvHeads: heads,
    headDim: read.divided(hidden, heads),
    inter: read.size("n_inner", 4 * hidden),
    maxPositions: read.size("n_positions", 1024),
    norm: "layer",
    normEps: read.number("layer_norm_epsilon", 1e-5),
    mlp: geluOf(read, read.text("activation_function", "gelu_new")),
    position: "learned",
    ropeTheta: 10_000,
    ropeScaling: undefined,
    tied: read.flag("tie_word_embeddings", true),
    qkvBias: true,
    outBias: true,
    mlpBias: true,
    qkNorm: false,
    slidingWindow: undefined,
  };
}

function geluOf(read: ConfigReader, activation: string): "gelu-tanh" | "gelu" {
  if (activation === "gelu") return "gelu";
  if (["gelu_new", "gelu_pytorch_tanh", "gelu_fast"].includes(activation)) return "gelu-tanh";
  throw read.unsupported(`activation_function = ${activation}`);
}

function llamaLike(architecture: Exclude<Architecture, "gpt2">, read: ConfigReader): EngineConfig {
  const hidden = read.size("hidden_size");
  const heads = read.size("num_attention_heads");
  const activation = read.text("hidden_act", "silu");
  if (activation !== "silu" && activation !== "swish") throw read.unsupported(`hidden_act = ${activation}`);
  // Llama and Qwen3 have a switch for biases in attention (q, k, v and o); Qwen2 always has them on q, k and v.
  const bias = architecture !== "qwen2" && architecture !== "mistral" && read.flag("attention_bias", false);
  const absent = absentKeys[architecture];
  return {
    vocab: read.size("vocab_size"),
    hidden,
    layers: read.size("num_hidden_layers"),
    heads,
    // Null is what older files say for "as many as heads".
    kvHeads: read.size(
      "num_key_value_heads",
      read.absent("num_key_value_heads") ? (absent.num_key_value_heads ?? heads) : heads,
    ),
    headDim: read.size("head_dim", absent.head_dim ?? (() => read.divided(hidden, heads))),
    inter: read.size("intermediate_size"),
    maxPositions: read.size("max_position_embeddings", absent.max_position_embeddings),
    norm: "rms",
    normEps: read.number("rms_norm_eps", 1e-6),
    mlp: "swiglu",
    position: "rope",
    ...rope(read),
    tied: read.flag("tie_word_embeddings", false),
    qkvBias: bias || architecture === "qwen2",
    outBias: bias,
    mlpBias: architecture === "llama" && read.flag("mlp_bias", false),
    qkNorm: architecture === "qwen3",
    slidingWindow: slidingWindow(architecture, read),
  };
}

function rope(read: ConfigReader): Pick<EngineConfig, "ropeTheta" | "ropeScaling"> {
  const nested = read.object("rope_parameters") ?? read.object("rope_scaling");
  const partial = nested?.number("partial_rotary_factor", 1) ?? read.number("partial_rotary_factor", 1);
  if (partial !== 1) throw read.unsupported("a partial_rotary_factor");
  const ropeTheta = nested?.has("rope_theta") ? nested.number("rope_theta") : read.number("rope_theta", 10_000);
  return { ropeTheta, ropeScaling: nested && ropeScaling(nested) };
}

function ropeScaling(scaling: ConfigReader): RopeScaling | undefined {
  const type = scaling.text("rope_type", () => scaling.text("type", "default"));
  switch (type) {
    case "default":
      return undefined;
    case "linear":
      return { type, factor: scaling.number("factor") };
    case "llama3":
      return {
        type,
        factor: scaling.number("factor"),
        lowFrequency: scaling.number("low_freq_factor"),
        highFrequency: scaling.number("high_freq_factor"),
        originalMaxPositions: scaling.size("original_max_position_embeddings"),
      };
    default:
      throw scaling.unsupported(`rope scaling of type "${type}"`, "Supported: default, linear, llama3.");
  }
}

/** Mistral's window holds for every layer when set; Qwen's only when switched on, and then from some layer on. */
function slidingWindow(architecture: Architecture, read: ConfigReader): number | undefined {
  const absent = absentKeys[architecture];
  const window = read.absent("sliding_window")
    ? absent.sliding_window
    : read.has("sliding_window")
      ? read.size("sliding_window")
      : undefined;
  if (window === undefined || architecture === "mistral") return window;
  if (architecture === "llama" || !read.flag("use_sliding_window", false)) return undefined;
  const layers = read.size("num_hidden_layers");
  const types = read.list("layer_types");
  const full = types
    ? types.filter((type) => type === "full_attention").length
    : Math.min(layers, read.count("max_window_layers", absent.max_window_layers ?? layers));
  if (full === layers) return undefined;
  if (full === 0) return window;
  throw read.unsupported("a sliding window in only some of the layers");
}

/** Typed access to a JSON object. For a fallback what is null counts as absent. */
class ConfigReader {
  readonly #json: JsonObject;
  readonly #where: string;

  constructor(json: JsonObject, where: string) {
    this.#json = json;
    this.#where = where;
  }

  unsupported(what: string, hint = "Choose another model, or ask for this feature."): StatesetError {
    return new StatesetError("MODEL_UNSUPPORTED", `${this.#where} asks for ${what}, which the engine does not have.`, {
      hint,
    });
  }

  #invalid(key: string, wanted: string): StatesetError {
    const value = JSON.stringify(this.#json[key]) ?? "missing";
    return new StatesetError("MODEL_INVALID", `${key} in ${this.#where} is ${value}; it must be ${wanted}.`, {
      hint: "The file is damaged, or no language model: download or convert the model again.",
    });
  }

  /** Not there at all; `null` is there. */
  absent(key: string): boolean {
    return this.#json[key] === undefined;
  }

  has(key: string): boolean {
    return this.#json[key] !== undefined && this.#json[key] !== null;
  }

  #read<T>(key: string, fallback: T | (() => T) | undefined, wanted: string, ok: (value: unknown) => boolean): T {
    if (!this.has(key) && fallback !== undefined) return fallback instanceof Function ? fallback() : fallback;
    if (!ok(this.#json[key])) throw this.#invalid(key, wanted);
    return this.#json[key] as T;
  }

  size(key: string, fallback?: number | (() => number)): number {
    const ok = (value: unknown) => Number.isInteger(value) && (value as number) > 0 && (value as number) <= 2 ** 24;
    return this.#read(key, fallback, "a whole number from 1 to 16777216", ok);
  }

  count(key: string, fallback: number): number {
    return this.#read(key, fallback, "a whole number", (value) => Number.isInteger(value) && (value as number) >= 0);
  }

  number(key: string, fallback?: number): number {
    const ok = (value: unknown) => Number.isFinite(value) && (value as number) >= 0;
    return this.#read(key, fallback, "a number that is not negative", ok);
  }

  flag(key: string, fallback: boolean): boolean {
    return this.#read(key, fallback, "true or false", (value) => typeof value === "boolean");
  }

  text(key: string, fallback: string | (() => string)): string {
    return this.#read(key, fallback, "a string", (value) => typeof value === "string");
  }

  list(key: string): unknown[] | undefined {
    if (!this.has(key)) return undefined;
    return this.#read<unknown[]>(key, undefined, "a list", Array.isArray);
  }

  object(key: string): ConfigReader | undefined {
    if (!this.has(key)) return undefined;
    const value = this.#json[key];
    if (!isObject(value)) throw this.#invalid(key, "an object");
    return new ConfigReader(value, `${key} in ${this.#where}`);
  }

  divided(hidden: number, heads: number): number {
    if (hidden % heads === 0) return hidden / heads;
    throw new StatesetError(
      "MODEL_INVALID",
      `${this.#where}: the hidden size ${hidden} is not a multiple of the ${heads} heads.`,
    );
  }
}
