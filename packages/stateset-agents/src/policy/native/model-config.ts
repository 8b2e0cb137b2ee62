import { join } from "node:path";
import type { EngineConfig } from "@stateset-agents/engine";
import { StatesetError } from "../../error.ts";
import { ggufOfFolder, isGgufFile } from "../gguf/find-gguf.ts";
import { readGgufConfig } from "../gguf/gguf-weights.ts";
import { isObject, type JsonObject, readJsonObject } from "../tokenizer/model-json.ts";
import { exists, isFolder } from "../what-lies-at.ts";
import { absentKeys } from "./absent-keys.ts";
import { rope, unrotatedLayers, windows } from "./attention-config.ts";
import { ConfigReader } from "./config-reader.ts";
import { gemma3 } from "./gemma-config.ts";

const architectures = [
  "gpt2",
  "llama",
  "mistral",
  "qwen2",
  "qwen3",
  "gemma3_text",
  "smollm3",
  "granite",
  "phi3",
] as const;

export type Architecture = (typeof architectures)[number];

export interface ModelConfig {
  architecture: Architecture;
  engine: EngineConfig;
  /** config.json as it was, for saving. */
  json: JsonObject;
}

/** The engine's own limit. */
const mostLayers = 4096;

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
  const engine =
    architecture === "gpt2"
      ? gpt2(read)
      : architecture === "gemma3_text"
        ? gemma3(read)
        : llamaLike(architecture, read);
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

function llamaLike(architecture: Exclude<Architecture, "gpt2" | "gemma3_text">, read: ConfigReader): EngineConfig {
  const hidden = read.size("hidden_size");
  const layers = read.size("num_hidden_layers");
  const heads = read.size("num_attention_heads");
  const activation = read.text("hidden_act", "silu");
  if (activation !== "silu" && activation !== "swish") throw read.unsupported(`hidden_act = ${activation}`);
  // Most have a switch for biases in attention (q, k, v and o); Qwen2 always has them on q, k and v.
  const bias = !["qwen2", "mistral", "phi3"].includes(architecture) && read.flag("attention_bias", false);
  const absent = absentKeys[architecture];
  const headDim = read.size("head_dim", absent.head_dim ?? (() => read.divided(hidden, heads)));
  return {
    vocab: read.size("vocab_size"),
    hidden,
    layers,
    heads,
    // Null is what older files say for "as many as heads".
    kvHeads: read.size(
      "num_key_value_heads",
      read.absent("num_key_value_heads") ? (absent.num_key_value_heads ?? heads) : heads,
    ),
    headDim,
    inter: read.size("intermediate_size"),
    maxPositions: read.size("max_position_embeddings", absent.max_position_embeddings),
    norm: "rms",
    normEps: read.number("rms_norm_eps", absent.rms_norm_eps ?? 1e-6),
    mlp: "swiglu",
    position: "rope",
    ...rope(architecture, read, headDim),
    tied: read.flag("tie_word_embeddings", absent.tie_word_embeddings ?? false),
    qkvBias: bias || architecture === "qwen2",
    outBias: bias,
    mlpBias: ["llama", "smollm3", "granite"].includes(architecture) && read.flag("mlp_bias", false),
    qkNorm: architecture === "qwen3",
    ...windows(architecture, read, layers),
    ...(architecture === "smollm3" && { unrotatedLayers: unrotatedLayers(read, layers) }),
    ...(architecture === "granite" && multipliers(read)),
  };
}

function multipliers(read: ConfigReader): Partial<EngineConfig> {
  return {
    embeddingScale: read.number("embedding_multiplier", 1),
    attentionScale: read.number("attention_multiplier", 1),
    residualScale: read.number("residual_multiplier", 1),
    logitScale: 1 / read.number("logits_scaling", 1),
  };
}
