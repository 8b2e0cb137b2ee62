import { StatesetError } from "../../error.ts";
import type { Architecture, ModelConfig } from "../native/model-config.ts";
import type { WritableType } from "./quantise.ts";
import type { GgufEntry } from "./write-gguf.ts";

/** Numbers that llama.cpp gives to files of mostly one type. */
const fileTypes = { F32: 0, F16: 1, Q8_0: 7 } as const satisfies Record<WritableType, number>;

const written: readonly Architecture[] = ["llama", "mistral", "qwen2", "qwen3", "gpt2"];

/** Metadata of a model, without its tokenizer: the way back from model-from-gguf.ts. */
export function ggufFromConfig(config: ModelConfig, name: string, type: WritableType): Map<string, GgufEntry> {
  const { architecture: own, engine: c } = config;
  const architecture = own === "mistral" ? "llama" : own;
  if (!written.includes(own)) {
    throw new StatesetError("MODEL_UNSUPPORTED", `${name} is a ${own}, which is not written as a GGUF file.`, {
      hint: `Export it as a folder. GGUF files are written of ${written.join(", ")}.`,
    });
  }
  refuseUnknown(config, name);
  const general: [string, GgufEntry][] = [
    ["general.architecture", architecture],
    ["general.type", "model"],
    ["general.name", name],
    ["general.file_type", fileTypes[type]],
    ["general.quantization_version", 2],
  ];
  const sizes: [string, GgufEntry][] = [
    ["vocab_size", c.vocab],
    ["context_length", c.maxPositions],
    ["embedding_length", c.hidden],
    ["block_count", c.layers],
    ["feed_forward_length", c.inter],
    ["attention.head_count", c.heads],
    ["attention.head_count_kv", c.kvHeads],
  ];
  const epsilon: GgufEntry = { f32: c.normEps };
  const rest: [string, GgufEntry][] =
    architecture === "gpt2"
      ? [["attention.layer_norm_epsilon", epsilon]]
      : [
          ["attention.layer_norm_rms_epsilon", epsilon],
          ["attention.key_length", c.headDim],
          ["attention.value_length", c.headDim],
          ["rope.dimension_count", c.headDim],
          ["rope.freq_base", { f32: c.ropeTheta }],
          ...ropeScaling(c.ropeScaling),
          ...(c.slidingWindow === undefined ? [] : [["attention.sliding_window", c.slidingWindow] as [string, number]]),
        ];
  return new Map([
    ...general,
    ...[...sizes, ...rest].map(([key, value]) => [`${architecture}.${key}`, value] as const),
  ]);
}

function ropeScaling(scaling: ModelConfig["engine"]["ropeScaling"]): [string, GgufEntry][] {
  if (!scaling) return [];
  // Llama 3's is a tensor; this says what it was made from.
  if (scaling.type === "llama3") return [["rope.scaling.original_context_length", scaling.originalMaxPositions]];
  return [
    ["rope.scaling.type", "linear"],
    ["rope.scaling.factor", { f32: scaling.factor }],
  ];
}

/** What GGUF's readers would compute otherwise than the model does. */
function refuseUnknown({ architecture, engine: c }: ModelConfig, name: string): void {
  const { ropeScaling: scaling } = c;
  const what =
    architecture === "gpt2" && c.mlp === "gelu"
      ? "the exact GELU (llama.cpp has the tanh form for GPT-2)"
      : architecture === "qwen3" && c.qkvBias
        ? "biases in attention, for Qwen3"
        : c.fullLayers
          ? "a sliding window in only some of its layers"
          : scaling?.type === "llama3" && (scaling.lowFrequency !== 1 || scaling.highFrequency !== 4)
            ? "frequency factors other than Llama 3's"
            : undefined;
  if (what === undefined) return;
  throw new StatesetError("MODEL_UNSUPPORTED", `${name} has ${what}, which a GGUF file cannot say.`, {
    hint: "Export it as a folder.",
  });
}
