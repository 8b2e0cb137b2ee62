/** Small random models in Hugging Face layout, made without Python, for tests. */
import { cp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Architecture, parseModelConfig } from "../src/policy/native/model-config.ts";
import { tensorPlaces } from "../src/policy/native/tensor-names.ts";
import { type TensorToWrite, writeSafetensors } from "../src/policy/weights/index.ts";
import { createRandom } from "../src/random.ts";
import { temporaryFolder } from "./temporary-folder.ts";

export { temporaryFolder };

export const storiesDir = fileURLToPath(new URL("./fixtures/stories260K", import.meta.url));

/** Those that GGUF files are read and written of. */
export const ggufArchitectures = ["gpt2", "llama", "mistral", "qwen2", "qwen3"] as const;

export const architectures = [...ggufArchitectures, "gemma3_text", "smollm3", "granite", "phi3"] as const;

/** The linear layers that are one to PEFT and one to the engine: it trains an adapter for each part of the others. */
export function plainTargets(architecture: Architecture): "all-linear" | string[] {
  if (architecture === "gpt2") return ["attn.c_proj", "mlp.c_fc", "mlp.c_proj"];
  return architecture === "phi3" ? ["self_attn.o_proj", "mlp.down_proj"] : "all-linear";
}

/** config.json of a model small enough to test every path: two heads to a key, sizes that are no multiple of 16. */
export function tinyConfig(architecture: Architecture): Record<string, unknown> {
  if (architecture === "gpt2") {
    return {
      model_type: "gpt2",
      architectures: ["GPT2LMHeadModel"],
      vocab_size: 512,
      n_embd: 48,
      n_layer: 2,
      n_head: 4,
      n_positions: 128,
    };
  }
  const shape = {
    vocab_size: 512,
    hidden_size: 48,
    intermediate_size: 88,
    num_hidden_layers: 2,
    num_attention_heads: 4,
  };
  const common = {
    ...shape,
    num_key_value_heads: 2,
    max_position_embeddings: 128,
    hidden_act: "silu",
    rms_norm_eps: 1e-5,
  };
  const own = {
    llama: {
      architectures: ["LlamaForCausalLM"],
      rope_theta: 10000,
      rope_scaling: {
        rope_type: "llama3",
        factor: 4,
        low_freq_factor: 1,
        high_freq_factor: 4,
        original_max_position_embeddings: 32,
      },
      tie_word_embeddings: true,
    },
    mistral: { architectures: ["MistralForCausalLM"], sliding_window: 12, tie_word_embeddings: false },
    qwen2: {
      architectures: ["Qwen2ForCausalLM"],
      rope_parameters: { rope_type: "default", rope_theta: 1_000_000 },
      tie_word_embeddings: true,
    },
    qwen3: {
      architectures: ["Qwen3ForCausalLM"],
      head_dim: 16,
      rope_parameters: { rope_type: "linear", factor: 2, rope_theta: 10000 },
    },
    gemma3_text: {
      architectures: ["Gemma3ForCausalLM"],
      hidden_activation: "gelu_pytorch_tanh",
      head_dim: 16,
      query_pre_attn_scalar: 24,
      sliding_window: 12,
      sliding_window_pattern: 2,
      rope_theta: 1_000_000,
      rope_local_base_freq: 10_000,
    },
    smollm3: { architectures: ["SmolLM3ForCausalLM"], no_rope_layers: [1, 0], pad_token_id: 0 },
    granite: {
      architectures: ["GraniteForCausalLM"],
      embedding_multiplier: 3,
      attention_multiplier: 0.25,
      residual_multiplier: 0.5,
      logits_scaling: 2,
      tie_word_embeddings: true,
    },
    phi3: { architectures: ["Phi3ForCausalLM"], partial_rotary_factor: 0.5, sliding_window: 12, pad_token_id: 0 },
  }[architecture];
  return { model_type: architecture, ...common, ...own };
}

/** Writes a random model (with the tokenizer of stories260K) to a temporary folder. */
export async function makeTinyModel(
  architecture: Architecture,
  changes: Record<string, unknown> = {},
  { seed = 1, scale = 0.15, edit = (tensors: TensorToWrite[]) => tensors } = {},
): Promise<string> {
  const dir = temporaryFolder();
  const json = { ...tinyConfig(architecture), eos_token_id: 2, ...changes };
  await writeFile(join(dir, "config.json"), JSON.stringify(json));
  for (const name of ["tokenizer.json", "tokenizer_config.json"]) await cp(join(storiesDir, name), join(dir, name));
  const random = createRandom(seed);
  const { engine } = parseModelConfig(json, "test");
  const tensors = tensorPlaces(architecture, engine).map(({ name, shape }): TensorToWrite => {
    const norm = engine.norm !== "rms-plus-one" && /(norm|ln_\w+)\.weight$/.test(name);
    const data = Float32Array.from(
      { length: shape.reduce((a, b) => a * b, 1) },
      () => (norm ? 1 : 0) + scale * gaussian(random.next),
    );
    return { name, shape, data };
  });
  await writeSafetensors(join(dir, "model.safetensors"), edit(tensors));
  return dir;
}

function gaussian(next: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
}
