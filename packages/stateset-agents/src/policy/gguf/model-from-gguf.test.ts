import { describe, expect, it } from "vitest";
import { parseModelConfig } from "../native/model-config.ts";
import type { GgufHeader } from "./gguf-header.ts";
import type { GgufValue } from "./gguf-metadata.ts";
import { ggufName, huggingFaceName, pairedRow, unpairedRow } from "./gguf-names.ts";
import { configFromGguf, llama3Factors } from "./model-from-gguf.ts";

const sizes = {
  "general.architecture": "llama",
  "llama.block_count": 2,
  "llama.context_length": 128,
  "llama.embedding_length": 64,
  "llama.feed_forward_length": 96,
  "llama.attention.head_count": 4,
  "llama.attention.head_count_kv": 2,
  "llama.attention.layer_norm_rms_epsilon": Math.fround(1e-5),
};

/** A header with these keys, `undefined` for without one; the tensors are only named. */
function header(
  changes: Record<string, GgufValue | undefined> = {},
  names: string[] = [],
  architecture = "llama",
): GgufHeader {
  const all: Record<string, GgufValue | undefined> = { ...sizes, "general.architecture": architecture, ...changes };
  const entries = Object.entries(all).filter((entry): entry is [string, GgufValue] => entry[1] !== undefined);
  const tensor = { type: "F32", shape: [300, 64], start: 0, bytes: 0 } as const;
  return {
    metadata: new Map(entries.map(([key, value]) => [key.replace(/^llama\./, `${architecture}.`), value])),
    tensors: new Map(["token_embd.weight", ...names].map((name) => [name, tensor])),
  };
}

const config = (parts: GgufHeader, factors?: Float32Array) => configFromGguf(parts, "x.gguf", factors);
const engine = (parts: GgufHeader, factors?: Float32Array) => parseModelConfig(config(parts, factors), "x.gguf").engine;

describe("the configuration in a GGUF file", () => {
  it("is that of the model's own folder", () => {
    expect(config(header({ "llama.rope.freq_base": 100_000, "tokenizer.ggml.eos_token_id": 2 }))).toEqual({
      architectures: ["LlamaForCausalLM"],
      model_type: "llama",
      hidden_act: "silu",
      hidden_size: 64,
      intermediate_size: 96,
      num_hidden_layers: 2,
      num_attention_heads: 4,
      num_key_value_heads: 2,
      head_dim: 16,
      max_position_embeddings: 128,
      rms_norm_eps: 1e-5,
      rope_theta: 100_000,
      attention_bias: false,
      mlp_bias: false,
      vocab_size: 300,
      tie_word_embeddings: true,
      eos_token_id: 2,
      torch_dtype: "float32",
    });
  });

  it("is tied unless there is an output matrix, and has biases where there are any", () => {
    expect(engine(header({}, ["output.weight"])).tied).toBe(false);
    expect(engine(header({}, ["blk.0.attn_q.bias", "blk.0.ffn_up.bias"]))).toMatchObject({
      qkvBias: true,
      mlpBias: true,
    });
  });

  it("says a window shorter than the context: Mistral's, and Qwen's of all layers", () => {
    const window = { "llama.attention.sliding_window": 32 };
    expect(config(header(window))).toMatchObject({ model_type: "mistral", sliding_window: 32 });
    expect(engine(header(window)).slidingWindow).toBe(32);
    expect(engine(header(window, [], "qwen2")).slidingWindow).toBe(32);
    expect(engine(header({ "llama.attention.sliding_window": 4096 })).slidingWindow).toBeUndefined();
    // Absent keys of config.json mean other things for Qwen.
    expect(engine(header({}, [], "qwen3"))).toMatchObject({
      headDim: 16,
      kvHeads: 2,
      qkNorm: true,
      slidingWindow: undefined,
    });
  });

  it("knows linear scaling, and Llama 3's by the factors that it gives", () => {
    const linear = { "llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4 };
    expect(engine(header(linear)).ropeScaling).toEqual({ type: "linear", factor: 4 });
    const llama32 = { factor: 32, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 };
    const wide = { "llama.rope.freq_base": 500_000, "llama.attention.key_length": 64 };
    const factors = llama3Factors(500_000, 64, llama32);
    expect([factors[0], factors[31]]).toEqual([1, 32]);
    expect(engine(header(wide), factors).ropeScaling).toEqual({
      type: "llama3",
      factor: 32,
      lowFrequency: 1,
      highFrequency: 4,
      originalMaxPositions: 8192,
    });
    expect(engine(header(wide), new Float32Array(32).fill(1)).ropeScaling).toBeUndefined();
    expect(() =>
      config(
        header(wide),
        factors.map((one, i) => (i === 20 ? one * 1.01 : one)),
      ),
    ).toThrow(/rope_freqs\.weight/);
    expect(() => config(header(wide), factors.subarray(1))).toThrow(/rope_freqs\.weight/);
  });

  /** Of Llama-3.2-1B, by transformers' formula in Python (numpy float64). */
  it("computes Llama 3's factors as transformers does", () => {
    const factors = llama3Factors(500_000, 64, {
      factor: 32,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 8192,
    });
    expect([...factors.subarray(13, 20)].map((one) => Number(one.toPrecision(6)))).toEqual([
      1.0, 1.0, 1.65133, 3.29226, 9.66673, 32.0, 32.0,
    ]);
  });

  it.each<[string, Record<string, GgufValue | undefined>, RegExp]>([
    ["another architecture", { "general.architecture": "mamba" }, /architecture "mamba".*llama, qwen2, qwen3 and gpt2/],
    ["a part of a model", { "split.count": 3 }, /one of 3 parts.*llama-gguf-split/],
    ["a later part", { "split.count": 3, "general.architecture": undefined }, /one of 3 parts.*llama-gguf-split/],
    ["an adapter", { "general.type": "adapter" }, /holds an adapter, no model.*PEFT/],
    ["a projector", { "general.type": "mmproj" }, /the part of a model that sees.*language model beside it/],
    ["an older projector", { "general.architecture": "clip" }, /the part of a model that sees/],
    [
      "another architecture",
      { "general.architecture": "gemma3" },
      /architecture "gemma3".*llama, qwen2, qwen3 and gpt2/,
    ],
    ["experts", { "llama.expert_count": 8 }, /"llama.expert_count" = 8/],
    ["a scale of the logits", { "llama.logit_scale": 0.5 }, /"llama.logit_scale" = 0.5/],
    // 1 changes nothing where it is multiplied with; these are not.
    ["a scale of the scores", { "llama.attention.scale": 1 }, /"llama.attention.scale" = 1/],
    ["a cap on the scores", { "llama.attn_logit_softcapping": 1 }, /"llama.attn_logit_softcapping" = 1/],
    ["a cap on the logits", { "llama.final_logit_softcapping": 1 }, /"llama.final_logit_softcapping" = 1/],
    ["a limit of keys and values", { "llama.attention.clamp_kqv": 1 }, /"llama.attention.clamp_kqv" = 1/],
    ["rotation of a part", { "llama.rope.dimension_count": 8 }, /rotation of only a part/],
    ["values wider than keys", { "llama.attention.value_length": 32 }, /values wider/],
  ])("refuses %s by name", (_, changes, message) => {
    expect(() => config(header(changes))).toThrow(expect.objectContaining({ code: "MODEL_UNSUPPORTED" }));
    expect(() => config(header(changes))).toThrow(message);
  });

  it("refuses a vocabulary without weights, and a first part that has none", () => {
    const empty = (changes = {}): GgufHeader => ({ ...header(changes), tensors: new Map() });
    expect(() => config(empty())).toThrow(/x\.gguf holds a vocabulary and no weights/);
    expect(() => config(empty({ "split.count": 2 }))).toThrow(/one of 2 parts/);
  });

  it("refuses yarn by name, and what is missing, wrong or absurd", () => {
    expect(() => engine(header({ "llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4 }))).toThrow(
      /"yarn"/,
    );
    expect(() => config(header({ "llama.block_count": undefined }))).toThrow(/x\.gguf has no "llama.block_count"/);
    expect(() => config(header({ "llama.feed_forward_length": [1, 2] }))).toThrow(
      /"llama.feed_forward_length" is a list of 2/,
    );
    expect(() => engine(header({ "llama.attention.head_count": 0 }))).toThrow(/num_attention_heads/);
    expect(() => engine(header({ "llama.embedding_length": 2 ** 50 }))).toThrow(/hidden_size/);
    const { metadata } = header();
    const tensors = new Map([["output_norm.weight", { type: "F32", shape: [64], start: 0, bytes: 256 } as const]]);
    expect(() => config({ metadata, tensors })).toThrow(/token_embd\.weight/);
  });
});

describe("names of tensors", () => {
  it("are the same after going there and back", () => {
    for (const [architecture, names] of [
      [
        "llama",
        ["model.embed_tokens.weight", "lm_head.weight", "model.layers.11.self_attn.q_proj.weight", "model.norm.weight"],
      ],
      ["qwen3", ["model.layers.0.self_attn.k_norm.weight", "model.layers.0.post_attention_layernorm.weight"]],
      ["gpt2", ["transformer.wpe.weight", "transformer.h.3.attn.c_attn.bias", "transformer.ln_f.bias"]],
    ] as const) {
      for (const name of names) expect(huggingFaceName(ggufName(name, architecture)!, architecture)).toBe(name);
    }
    expect(ggufName("model.layers.11.mlp.down_proj.weight", "llama")).toBe("blk.11.ffn_down.weight");
    expect(ggufName("transformer.h.0.attn.c_attn.weight", "gpt2")).toBe("blk.0.attn_qkv.weight");
    expect(huggingFaceName("blk.0.ffn_gate_exps.weight", "llama")).toBeUndefined();
    expect(huggingFaceName("blk.x.ffn_up.weight", "llama")).toBeUndefined();
  });

  it("go with rows in pairs: those that turn together lie side by side in a file", () => {
    // llama.cpp's converter: w.reshape(heads, 2, rows / heads / 2, cols).swapaxes(1, 2), here of rows 0 … 11 in two heads.
    const file = [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11];
    expect(file.map((_, at) => unpairedRow(at, 6))).toEqual(file);
    expect(file.map((row) => pairedRow(row, 6))).toEqual(file.map((_, at) => at));
  });
});
