import type { Architecture } from "./model-config.ts";

/** What a key of config.json means when it is not there. `null` in the file is not absent where it says "none", as for a window. */
export interface AbsentKeys {
  num_key_value_heads?: number;
  head_dim?: number;
  max_position_embeddings?: number;
  sliding_window?: number;
  max_window_layers?: number;
  tie_word_embeddings?: boolean;
  rope_theta?: number;
  rms_norm_eps?: number;
}

/**
 * Of each architecture, as the configuration classes of transformers have it; a test compares them. Where a key is left out here too, it
 * follows from others: as many key-value heads as heads, a head as wide as the hidden size has room for, no window.
 * Files that transformers wrote leave out what is at its default, so a wrong one here is a wrong model.
 */
export const absentKeys: Readonly<Record<Architecture, AbsentKeys>> = {
  gpt2: {},
  llama: { max_position_embeddings: 2048 },
  mistral: { num_key_value_heads: 8, max_position_embeddings: 131_072, sliding_window: 4096 },
  qwen2: { num_key_value_heads: 32, max_position_embeddings: 32_768, sliding_window: 4096, max_window_layers: 28 },
  qwen3: {
    num_key_value_heads: 32,
    head_dim: 128,
    max_position_embeddings: 32_768,
    sliding_window: 4096,
    max_window_layers: 28,
  },
  gemma3_text: {
    num_key_value_heads: 4,
    head_dim: 256,
    max_position_embeddings: 131_072,
    sliding_window: 4096,
    tie_word_embeddings: true,
  },
  smollm3: {
    num_key_value_heads: 4,
    max_position_embeddings: 32_768,
    tie_word_embeddings: true,
    rope_theta: 2_000_000,
  },
  granite: { max_position_embeddings: 2048 },
  phi3: { max_position_embeddings: 4096, rms_norm_eps: 1e-5 },
};
