import type { Architecture } from "../native/model-config.ts";

/** Tensors of a layer and of the whole model: as Hugging Face calls them, as GGUF does. One table for both directions. */
interface Names {
  layer: string;
  inLayer: readonly (readonly [huggingFace: string, gguf: string])[];
  whole: readonly (readonly [huggingFace: string, gguf: string])[];
}

const llamaNames: Names = {
  layer: "model.layers",
  inLayer: [
    ["input_layernorm", "attn_norm"],
    ["self_attn.q_proj", "attn_q"],
    ["self_attn.k_proj", "attn_k"],
    ["self_attn.v_proj", "attn_v"],
    ["self_attn.o_proj", "attn_output"],
    ["self_attn.q_norm", "attn_q_norm"],
    ["self_attn.k_norm", "attn_k_norm"],
    ["post_attention_layernorm", "ffn_norm"],
    ["mlp.gate_proj", "ffn_gate"],
    ["mlp.up_proj", "ffn_up"],
    ["mlp.down_proj", "ffn_down"],
  ],
  whole: [
    ["model.embed_tokens", "token_embd"],
    ["model.norm", "output_norm"],
    ["lm_head", "output"],
  ],
};

const gpt2Names: Names = {
  layer: "transformer.h",
  inLayer: [
    ["ln_1", "attn_norm"],
    ["attn.c_attn", "attn_qkv"],
    ["attn.c_proj", "attn_output"],
    ["ln_2", "ffn_norm"],
    ["mlp.c_fc", "ffn_up"],
    ["mlp.c_proj", "ffn_down"],
  ],
  whole: [
    ["transformer.wte", "token_embd"],
    ["transformer.wpe", "position_embd"],
    ["transformer.ln_f", "output_norm"],
    ["lm_head", "output"],
  ],
};

/** Both ways, without `.weight` and `.bias`. A name that is not in the table is undefined. */
function renamed(name: string, architecture: Architecture, toGguf: boolean): string | undefined {
  const names = architecture === "gpt2" ? gpt2Names : llamaNames;
  const [from, to] = toGguf ? [0, 1] : [1, 0];
  const find = (table: Names["whole"], part: string) => table.find((pair) => pair[from] === part)?.[to];
  const [ownLayer, otherLayer] = toGguf ? [names.layer, "blk"] : ["blk", names.layer];
  const match = /^(.+)\.(weight|bias)$/.exec(name);
  if (!match) return undefined;
  const [, path, kind] = match as unknown as [string, string, string];
  const inLayer = path.startsWith(`${ownLayer}.`) ? /^(\d+)\.(.+)$/.exec(path.slice(ownLayer.length + 1)) : null;
  const found = inLayer ? find(names.inLayer, inLayer[2]!) : find(names.whole, path);
  if (found === undefined) return undefined;
  return inLayer ? `${otherLayer}.${inLayer[1]}.${found}.${kind}` : `${found}.${kind}`;
}

export function huggingFaceName(name: string, architecture: Architecture): string | undefined {
  return renamed(name, architecture, false);
}

export function ggufName(name: string, architecture: Architecture): string | undefined {
  return renamed(name, architecture, true);
}

/** What llama.cpp computes from the configuration, and older files hold nevertheless. */
export function isTable(name: string): boolean {
  return /^(rope_freqs|blk\.\d+\.attn_rot_embd)\.weight$/.test(name);
}

/**
 * Llama's files hold the rows of q and k in another order: those that turn together lie side by side, where Hugging Face has the first halves
 * of all pairs, then the second. Row `row` of Hugging Face is row `result` of the file.
 */
export function pairedRow(row: number, headDim: number): number {
  const [head, inHead] = [Math.floor(row / headDim), row % headDim];
  const half = headDim / 2;
  return head * headDim + 2 * (inHead % half) + Math.floor(inHead / half);
}

/** The way back: row `row` of the file is row `result` of Hugging Face. */
export function unpairedRow(row: number, headDim: number): number {
  const [head, inHead] = [Math.floor(row / headDim), row % headDim];
  return head * headDim + (inHead % 2) * (headDim / 2) + Math.floor(inHead / 2);
}

/** Whether a tensor (by its name in Hugging Face) is one of those. */
export function isPaired(name: string, architecture: Architecture): boolean {
  return (
    (architecture === "llama" || architecture === "mistral") && /\.self_attn\.[qk]_proj\.(weight|bias)$/.test(name)
  );
}

/** GPT-2's Conv1D: Hugging Face has [in, out], GGUF [out, in] as for every other matrix. */
export function isConv1d(name: string, architecture: Architecture): boolean {
  return architecture === "gpt2" && /\.c_(attn|proj|fc)\.weight$/.test(name);
}
