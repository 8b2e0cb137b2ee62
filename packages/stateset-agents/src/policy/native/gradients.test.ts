import { openModel } from "@stateset-agents/engine";
import { afterEach, expect, it, vi } from "vitest";
import { readVector } from "../../../test/read-vector.ts";
import { makeTinyModel } from "../../../test/tiny-model.ts";
import { buildTokenTree } from "../../conversation/token-tree.ts";
import { modelFacts } from "../../run/config.ts";
import { openPolicy } from "../open-policy.ts";
import { readModelConfig } from "./model-config.ts";

const { tree } = buildTokenTree([
  { tokens: Int32Array.of(1, 20, 30, 40, 50, 60), learn: Uint8Array.of(0, 1, 1, 1, 1, 1) },
]);

afterEach(() => vi.unstubAllEnvs());

it.each([
  ["best this machine has", ""],
  ["least", "scalar"],
])(
  "gradients in bf16 are near those of f32 and the same each time; scores stay what they are, and where it brings no speed that is said, on the %s",
  async (_, simd) => {
    vi.stubEnv("STATESET_SIMD", simd);
    const model = await makeTinyModel("llama", { hidden_size: 64, intermediate_size: 96 });
    const { engine } = await readModelConfig(model);
    const opened = await openModel(engine, { threads: 1, slots: 1, cacheBytes: 1 << 20 });
    const { gainsByBf16 } = opened;
    await opened.close();
    if (simd === "scalar") expect(gainsByBf16).toBe(false);
    const warnings: Error[] = [];
    const hear = (warning: Error) => warnings.push(warning);
    process.on("warning", hear);
    const of = async (gradients: "f32" | "bf16", threads: number) => {
      const policy = await openPolicy({ model, threads, gradients });
      const pass = await policy.forward(tree);
      await policy.backward(pass, { logprobs: pass.logprobs.map(() => -1) });
      const found = {
        scores: pass.logprobs,
        gradient: await readVector(policy, "gradients"),
        facts: modelFacts(policy.model),
      };
      await policy.close();
      return found;
    };
    const [exact, rounded, again] = [await of("f32", 1), await of("bf16", 1), await of("bf16", 2)];
    expect(rounded.scores).toEqual(exact.scores);
    expect(again.gradient).toEqual(rounded.gradient);
    const norm = (values: Float32Array) => Math.hypot(...values);
    const apart = norm(rounded.gradient.map((value, i) => value - exact.gradient[i]!)) / norm(exact.gradient);
    expect(apart).toBeGreaterThan(1e-5);
    expect(apart).toBeLessThan(0.02);
    expect([exact.facts, rounded.facts].map(({ gradients }) => gradients)).toEqual([undefined, "bf16"]);
    await new Promise(setImmediate);
    process.off("warning", hear);
    const said = warnings.filter(({ message }) => message.includes("brings no speed"));
    expect(said.length).toBe(gainsByBf16 ? 0 : 2);
  },
);
