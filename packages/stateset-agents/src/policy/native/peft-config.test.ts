import { describe, expect, it } from "vitest";
import { alphaOf, engineAlphas } from "./peft.ts";
import { parseAdapterConfig } from "./peft-config.ts";

/** As PEFT writes one: everything that is not used is there, off. */
const written = {
  ...{
    peft_type: "LORA",
    task_type: "CAUSAL_LM",
    base_model_name_or_path: "base",
    r: 4,
    lora_alpha: 8,
    lora_dropout: 0,
  },
  ...{ target_modules: ["q_proj", "v_proj"], bias: "none", fan_in_fan_out: false, inference_mode: true },
  ...{ init_lora_weights: true, use_rslora: false, use_dora: false, lora_bias: false, modules_to_save: null },
  ...{ rank_pattern: {}, alpha_pattern: {}, loftq_config: {}, megatron_core: "megatron.core", qalora_group_size: 16 },
  ...{ exclude_modules: null, layer_replication: null, peft_version: "0.21.2", arrow_config: null, use_qalora: false },
};
const loraOf = (changes: Record<string, unknown>) => parseAdapterConfig({ ...written, ...changes }, "adapter").lora;

describe("adapter_config.json", () => {
  it("is read as PEFT writes it", () => {
    expect(loraOf({})).toEqual({ rank: 4, alpha: 8, dropout: 0, targetModules: ["q_proj", "v_proj"] });
    expect(loraOf({ init_lora_weights: "gaussian" }).alpha).toBe(8);
  });

  it("gives modules their own scale", () => {
    const lora = loraOf({ alpha_pattern: { v_proj: 32 } });
    expect(alphaOf(lora, "model.layers.0.self_attn.v_proj")).toBe(32);
    expect(alphaOf(lora, "model.layers.0.self_attn.q_proj")).toBe(8);
    // alpha / √r · r
    expect(loraOf({ use_rslora: true }).alpha).toBe(16);
    // A module that stands for three of the engine's layers, as we write it.
    const three = loraOf({ rank_pattern: { "attn.c_attn": 12 }, alpha_pattern: { "attn.c_attn": 24 } });
    expect(three.alphaPattern).toBeUndefined();
  });

  it.each([
    ["init_lora_weights", "pissa"],
    ["init_lora_weights", "pissa_niter_4"],
    ["init_lora_weights", "olora"],
    ["use_rslora", "no"],
    ["use_rslora", 1],
    ["use_dora", true],
    ["exclude_modules", ["lm_head"]],
    ["layer_replication", [[0, 4]]],
    ["use_qalora", true],
    ["something_new", 1],
    ["rank_pattern", { q_proj: 6 }],
    ["alpha_pattern", { "(q|v)_proj": 6 }],
    ["modules_to_save", ["lm_head"]],
  ])("is refused by name where %s is %j", (key, value) => {
    expect(() => loraOf({ [key]: value })).toThrow(key);
  });

  it("is refused where a layer's scale differs from block to block", () => {
    const lora = loraOf({ alpha_pattern: { "layers.0.self_attn.v_proj": 32 } });
    const module = (layer: number) => ({
      ...{ path: `model.layers.${layer}.self_attn.v_proj`, layer, inSize: 8 },
      targets: [{ target: "v", rows: 8 }],
    });
    expect(engineAlphas(lora, [module(0)])).toEqual({ v: 32 });
    expect(() => engineAlphas(lora, [module(0), module(1)])).toThrow("layers.1.self_attn.v_proj");
  });
});
