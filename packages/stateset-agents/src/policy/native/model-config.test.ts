import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { architectures, tinyConfig } from "../../../test/tiny-model.ts";
import type { JsonObject } from "../tokenizer/model-json.ts";
import { parameterCount } from "./memory.ts";
import { parseModelConfig } from "./model-config.ts";
import { tensorPlaces } from "./tensor-names.ts";
import { sizeOf } from "./weights.ts";

const python = process.env.STATESET_PYTHON;
const script = fileURLToPath(new URL("./fixtures/reference_configs.py", import.meta.url));

/** With 32 layers and 16 heads, so that no default is met by chance. */
const sizes = {
  vocab_size: 96,
  hidden_size: 2048,
  intermediate_size: 80,
  num_hidden_layers: 32,
  num_attention_heads: 16,
};
const llamaLike = ["llama", "mistral", "qwen2", "qwen3", "gemma3_text", "smollm3", "granite", "phi3"];
const parse = (json: JsonObject) => parseModelConfig(json, "config.json").engine;

describe("keys that config.json leaves out", () => {
  it.each([
    ["mistral", 8, 4096, 131_072],
    ["llama", 16, undefined, 2048],
    ["qwen2", 32, undefined, 32_768],
    ["qwen3", 32, undefined, 32_768],
    ["gemma3_text", 4, 4096, 131_072],
    ["smollm3", 4, undefined, 32_768],
    ["granite", 16, undefined, 2048],
    ["phi3", 16, undefined, 4096],
  ])(
    "mean for %s: %i key-value heads, a window of %s, %i positions",
    (model_type, kvHeads, slidingWindow, maxPositions) => {
      expect(parse({ model_type, ...sizes })).toMatchObject({ kvHeads, slidingWindow, maxPositions });
    },
  );

  it("are not the same as null", () => {
    const mistral = { model_type: "mistral", ...sizes, num_key_value_heads: 4 };
    expect(parse({ ...mistral, sliding_window: null }).slidingWindow).toBeUndefined();
    expect(parse({ ...mistral, sliding_window: 128 }).slidingWindow).toBe(128);
    expect(parse({ model_type: "qwen2", ...sizes, num_key_value_heads: null }).kvHeads).toBe(16);
  });

  it("are those of Qwen's window, once it is switched on", () => {
    const qwen = { model_type: "qwen2", ...sizes, use_sliding_window: true };
    expect(parse(qwen)).toMatchObject({ slidingWindow: 4096, fullLayers: [...Array(28).keys()] });
    expect(parse({ ...qwen, num_hidden_layers: 28 }).slidingWindow).toBeUndefined();
    expect(parse({ ...qwen, max_window_layers: 0 })).toMatchObject({ slidingWindow: 4096 });
    expect(parse({ ...qwen, max_window_layers: 0 }).fullLayers).toBeUndefined();
  });

  it("give way to a list of the kinds of layers, where there is one", () => {
    const mixed = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"];
    const given = { ...sizes, num_hidden_layers: 4, sliding_window: 9, use_sliding_window: true, layer_types: mixed };
    for (const model_type of ["mistral", "qwen2", "qwen3"]) {
      expect(parse({ model_type, ...given })).toMatchObject({ slidingWindow: 9, fullLayers: [0, 3] });
      expect(
        parse({ model_type, ...given, layer_types: Array(4).fill("full_attention") }).slidingWindow,
      ).toBeUndefined();
      const odd = { model_type, ...given, layer_types: [...mixed.slice(1), "linear_attention"] };
      expect(() => parse(odd)).toThrow('asks for layers of the kind "linear_attention"');
      expect(() => parse({ model_type, ...given, num_hidden_layers: 5 })).toThrow("layer_types in config.json");
    }
    expect(parse({ model_type: "qwen2", ...given, use_sliding_window: false }).slidingWindow).toBeUndefined();
  });

  it.skipIf(!python)("mean what they mean to transformers, absent and null", { timeout: 120_000 }, () => {
    const given: JsonObject[] = llamaLike.flatMap((model_type) => {
      const whole: JsonObject = {
        ...{ model_type, ...sizes, num_key_value_heads: 4, head_dim: 64, max_position_embeddings: 99 },
        ...{ rms_norm_eps: 1e-3, tie_word_embeddings: true, attention_bias: false, sliding_window: 7 },
        ...{ query_pre_attn_scalar: 64, rope_local_base_freq: 55, sliding_window_pattern: 4 },
        ...{ no_rope_layers: Array.from({ length: 32 }, (_, i) => i % 2), no_rope_layer_interval: 5 },
        ...{ embedding_multiplier: 12, attention_multiplier: 0.125, residual_multiplier: 0.25, logits_scaling: 8 },
        ...{ use_sliding_window: /^(qwen|smollm)/.test(model_type), max_window_layers: 3, rope_theta: 77 },
      };
      return Object.keys(whole)
        .filter((key) => key !== "model_type" && !(key in sizes))
        .flatMap((key) => {
          const { [key]: _, ...rest } = whole;
          // transformers takes a null of these for a number, and fails later.
          return /^rope_/.test(key) ? [rest] : [rest, { ...whole, [key]: null }];
        });
    });
    const gpt2: JsonObject = { model_type: "gpt2", vocab_size: 96, n_embd: 64, n_head: 4, n_layer: 2, n_inner: 80 };
    given.push(
      ...Object.keys(gpt2)
        .filter((key) => key !== "model_type")
        .map((key) => ({ ...gpt2, [key]: undefined })),
    );
    const theirs = JSON.parse(
      execFileSync(python!, [script], {
        input: JSON.stringify(given),
        encoding: "utf8",
        stdio: ["pipe", "pipe", "ignore"],
      }),
    ) as (JsonObject | null)[];
    expect(theirs.filter((one) => one !== null).length).toBeGreaterThan(50);
    const different = given.flatMap((json, i) => {
      const own = attempt(json);
      const wanted = theirs[i];
      // What transformers refuses we may take; what we refuse by name is no wrong number.
      if (!wanted || !own) return [];
      const unlike = Object.keys(wanted).filter((key) => (own[key] ?? null) !== wanted[key]);
      return unlike.length === 0 ? [] : [{ json, unlike: unlike.map((key) => [key, own[key], wanted[key]]) }];
    });
    expect(different).toEqual([]);
  });
});

describe("what is not run", () => {
  const named = (json: JsonObject) => () => parse({ ...sizes, ...json });
  it("is refused by its name", () => {
    const phi = { model_type: "phi3", rope_scaling: { type: "longrope", short_factor: [1], long_factor: [2] } };
    expect(named(phi)).toThrow('asks for rope scaling of type "longrope"');
    expect(named({ model_type: "llama", partial_rotary_factor: 0.5 })).toThrow("asks for a partial_rotary_factor");
    const gemma = { model_type: "gemma3_text" };
    expect(named({ ...gemma, final_logit_softcapping: 30 })).toThrow("asks for final_logit_softcapping");
    expect(named({ ...gemma, use_bidirectional_attention: true })).toThrow("asks for use_bidirectional_attention");
    expect(named({ ...gemma, hidden_activation: "relu" })).toThrow("asks for hidden_activation = relu");
    const local = { sliding_attention: { rope_type: "linear", factor: 2 } };
    expect(named({ ...gemma, rope_parameters: local })).toThrow("asks for rope scaling in layers with a window");
    expect(named({ model_type: "smollm3", no_rope_layers: [1, 0] })).toThrow("it must be a list of 32 zeros and ones");
    for (const model_type of ["gemma3", "granitemoe", "phimoe"]) {
      expect(named({ model_type })).toThrow(`describes a model of type "${model_type}"`);
    }
  });
});

it.each(architectures)("counts every number of a %s", (architecture) => {
  const { engine } = parseModelConfig(tinyConfig(architecture), "config.json");
  const numbers = tensorPlaces(architecture, engine).reduce((sum, place) => sum + sizeOf(place), 0);
  expect(parameterCount(engine)).toBe(numbers);
});

function attempt(json: JsonObject): Record<string, unknown> | undefined {
  try {
    const engine = parse(json);
    const lists = [engine.fullLayers, engine.unrotatedLayers].map((list) => (list ?? []).join());
    return { ...engine, fullLayers: lists[0], unrotatedLayers: lists[1] };
  } catch {
    return undefined;
  }
}
