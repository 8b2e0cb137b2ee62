import type { EngineConfig } from "@stateset-agents/engine";
import { absentKeys } from "./absent-keys.ts";
import { gemmaRope, windows } from "./attention-config.ts";
import type { ConfigReader } from "./config-reader.ts";

/** Gemma 3's language model: four norms a layer, embeddings scaled, two kinds of attention. */
export function gemma3(read: ConfigReader): EngineConfig {
  const absent = absentKeys.gemma3_text;
  const [hidden, layers] = [read.size("hidden_size"), read.size("num_hidden_layers")];
  const activation = read.text("hidden_activation", "gelu_pytorch_tanh");
  if (activation !== "gelu_pytorch_tanh") throw read.unsupported(`hidden_activation = ${activation}`);
  for (const key of ["final_logit_softcapping", "attn_logit_softcapping"])
    if (read.has(key)) throw read.unsupported(key);
  if (read.flag("use_bidirectional_attention", false)) throw read.unsupported("use_bidirectional_attention");
  const bias = read.flag("attention_bias", false);
  const attending = windows("gemma3_text", read, layers);
  const { localRopeTheta, ...global } = gemmaRope(read);
  return {
    vocab: read.size("vocab_size"),
    hidden,
    layers,
    heads: read.size("num_attention_heads"),
    kvHeads: read.size("num_key_value_heads", absent.num_key_value_heads),
    headDim: read.size("head_dim", absent.head_dim),
    inter: read.size("intermediate_size"),
    maxPositions: read.size("max_position_embeddings", absent.max_position_embeddings),
    norm: "rms-plus-one",
    normEps: read.number("rms_norm_eps", 1e-6),
    mlp: "geglu",
    position: "rope",
    ...global,
    tied: read.flag("tie_word_embeddings", absent.tie_word_embeddings!),
    qkvBias: bias,
    outBias: bias,
    mlpBias: false,
    qkNorm: true,
    postNorm: true,
    // As transformers has it in float32, which is what is computed in here; in bfloat16 it rounds this number, too.
    embeddingScale: Math.sqrt(hidden),
    attentionScale: 1 / Math.sqrt(read.size("query_pre_attn_scalar", 256)),
    ...attending,
    ...(attending.slidingWindow !== undefined && { localRopeTheta }),
  };
}
