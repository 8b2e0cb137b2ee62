/** A whole transformer with random weights, small enough that a training run takes seconds: Llama, 2 layers of 32, one token a letter. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createRandom } from "stateset-agents";
import { writeSafetensors } from "../../packages/stateset-agents/src/policy/weights/write-safetensors.ts";

const letters = "abcdefghijklmnopqrstuvwxyz";
const special = ["<end>", "<user>", "<assistant>", "<system>"];
const vocab = [...special, ...letters];

const config = {
  architectures: ["LlamaForCausalLM"],
  model_type: "llama",
  vocab_size: vocab.length,
  hidden_size: 32,
  intermediate_size: 64,
  num_hidden_layers: 2,
  num_attention_heads: 2,
  num_key_value_heads: 1,
  head_dim: 16,
  max_position_embeddings: 128,
  rms_norm_eps: 1e-5,
  rope_theta: 10000,
  hidden_act: "silu",
  attention_bias: false,
  mlp_bias: false,
  tie_word_embeddings: false,
  eos_token_id: 0,
  torch_dtype: "float32",
};

const template =
  "{%- for message in messages %}{{- '<' + message.role + '>' + message.content + '<end>' }}{%- endfor %}" +
  "{%- if add_generation_prompt %}{{- '<assistant>' }}{%- endif %}";

/** Writes the model to a folder in Hugging Face layout. The same seed gives the same bytes. */
export async function writeTinyModel(dir: string, seed: number): Promise<void> {
  await mkdir(dir, { recursive: true });
  const addedTokens = special.map((content, id) => ({ id, content, special: true, ...plain }));
  const tokenizer = {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: addedTokens,
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    decoder: { type: "Fuse" },
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(vocab.map((token, id) => [token, id])),
      merges: [],
    },
  };
  const tokenizerConfig = {
    tokenizer_class: "PreTrainedTokenizerFast",
    eos_token: "<end>",
    chat_template: template,
    model_max_length: config.max_position_embeddings,
    added_tokens_decoder: Object.fromEntries(addedTokens.map(({ id, ...token }) => [id, token])),
  };
  const files = { "config.json": config, "tokenizer.json": tokenizer, "tokenizer_config.json": tokenizerConfig };
  for (const [name, content] of Object.entries(files)) await writeFile(join(dir, name), JSON.stringify(content));
  await writeSafetensors(join(dir, "model.safetensors"), weights(seed));
}

const plain = { single_word: false, lstrip: false, rstrip: false, normalized: false };

function weights(seed: number) {
  const { hidden_size: hidden, intermediate_size: inter, head_dim, num_attention_heads, num_key_value_heads } = config;
  const random = createRandom(seed);
  // Box–Muller; 1 − u keeps the logarithm finite.
  const normal = () => Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
  const tensors: { name: string; shape: number[]; data: Float32Array }[] = [];
  const add = (name: string, shape: number[], deviation: number) => {
    const size = shape.reduce((product, n) => product * n, 1);
    tensors.push({
      name,
      shape,
      data: Float32Array.from({ length: size }, () => (deviation ? normal() * deviation : 1)),
    });
  };
  const linear = (name: string, out: number, into: number) => add(`${name}.weight`, [out, into], 1 / Math.sqrt(into));
  add("model.embed_tokens.weight", [vocab.length, hidden], 1);
  for (let i = 0; i < config.num_hidden_layers; i++) {
    const layer = `model.layers.${i}`;
    add(`${layer}.input_layernorm.weight`, [hidden], 0);
    add(`${layer}.post_attention_layernorm.weight`, [hidden], 0);
    linear(`${layer}.self_attn.q_proj`, num_attention_heads * head_dim, hidden);
    linear(`${layer}.self_attn.k_proj`, num_key_value_heads * head_dim, hidden);
    linear(`${layer}.self_attn.v_proj`, num_key_value_heads * head_dim, hidden);
    linear(`${layer}.self_attn.o_proj`, hidden, num_attention_heads * head_dim);
    linear(`${layer}.mlp.gate_proj`, inter, hidden);
    linear(`${layer}.mlp.up_proj`, inter, hidden);
    linear(`${layer}.mlp.down_proj`, hidden, inter);
  }
  add("model.norm.weight", [hidden], 0);
  // Small, so that the first replies are nearly uniform over the letters; not smaller, or the layers below would hardly learn from the policy
  // at first and a critic's gradient, which passes them too, would drown it.
  add("lm_head.weight", [vocab.length, hidden], 0.1);
  return tensors;
}
