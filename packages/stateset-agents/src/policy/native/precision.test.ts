import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ggufArchitectures, makeTinyModel, temporaryFolder } from "../../../test/tiny-model.ts";
import { withoutAmx } from "../../../test/without-amx.ts";
import { buildTokenTree } from "../../conversation/token-tree.ts";
import { exportGguf } from "../gguf/export-gguf.ts";
import type { WritableType } from "../gguf/quantise.ts";
import { openPolicy } from "../open-policy.ts";
import { defaultSampling, type Policy } from "../policy.ts";
import { planFolder } from "./memory.ts";
import { readModelConfig } from "./model-config.ts";
import { weightBytes, weightForms } from "./precision.ts";
import { checkWeights } from "./weights.ts";

const planned = { tokenBudget: 64, recompute: false, reference: false };
const lora = { rank: 4, alpha: 8, dropout: 0, targetModules: "all-linear" } as const;

withoutAmx();

/** Rows of 64, so that whole blocks fit. */
const wide = (architecture: (typeof ggufArchitectures)[number]) =>
  makeTinyModel(architecture, architecture === "gpt2" ? { n_embd: 64 } : { hidden_size: 64, intermediate_size: 96 });

async function gguf(dir: string, type: WritableType): Promise<string> {
  const file = join(await temporaryFolder(), "model.gguf");
  await exportGguf({ dir, file, type, name: "tiny" });
  return file;
}

/** Replies, scores, and what two steps make of the adapter. */
async function outcome(policy: Policy): Promise<unknown> {
  const prompts = [[1, 20, 30], [1, 5, 6, 7, 8, 300], Array.from({ length: 40 }, (_, i) => 3 + i)];
  const sampling = { ...defaultSampling, maxTokens: 12 };
  const samples = await policy.sample(
    prompts.map((tokens, seed) => ({ tokens: Int32Array.from(tokens), sampling, seed })),
  );
  const { tree } = buildTokenTree(
    samples.map(({ tokens }, i) => {
      const prompt = prompts[i]!;
      const learn = Uint8Array.from([...prompt.map(() => 0), ...Array.from(tokens, () => 1)]);
      return { tokens: Int32Array.from([...prompt, ...tokens]), learn };
    }),
  );
  const scores = [];
  for (let step = 0; step < 2; step++) {
    const pass = await policy.forward(tree);
    scores.push([...pass.logprobs]);
    await policy.backward(pass, { logprobs: pass.logprobs.map((_, i) => (i % 3) - 1) });
    await policy.step({ learningRate: 1e-3 });
  }
  return [samples.map(({ tokens, logprobs }) => [[...tokens], [...logprobs]]), scores];
}

describe.each(ggufArchitectures)("small weights of %s", (architecture) => {
  it.each(["F16", "Q8_0"] as const)("sample, score and learn as the same numbers in f32 do: %s", async (type) => {
    const model = await gguf(await wide(architecture), type);
    const results = [];
    for (const precision of ["file", "f32"] as const) {
      const policy = await openPolicy({ model, precision, lora, threads: 1 });
      results.push(await outcome(policy));
      await policy.close();
    }
    expect(results[0]).toEqual(results[1]);
  });
});

/** A model whose numbers are those of bf16, in a file of bf16. */
async function bf16Model(): Promise<string> {
  return makeTinyModel(
    "llama",
    { hidden_size: 64, intermediate_size: 96 },
    {
      edit: (tensors) => tensors.map((tensor) => ({ ...tensor, dtype: "BF16" as const })),
    },
  );
}

describe("precision", () => {
  it("keeps the base of an adapter as its file does, and gives the bits of f32", async () => {
    const model = await bf16Model();
    const results = [];
    for (const precision of [undefined, "f32"] as const) {
      const policy = await openPolicy({ model, lora, threads: 1, ...(precision && { precision }) });
      results.push({ weights: policy.plan(planned).weights, outcome: await outcome(policy) });
      await policy.close();
    }
    const [small, plain] = results;
    expect(small!.outcome).toEqual(plain!.outcome);
    expect(small!.weights).toBeLessThan(0.65 * plain!.weights);
  });

  it("is f32 where all weights are to be trained, and they can be", async () => {
    const model = await bf16Model();
    const policy = await openPolicy({ model, threads: 1 });
    await outcome(policy);
    await policy.close();
  });

  it("rounds to eight bits when asked to, and stays near", async () => {
    const model = await bf16Model();
    const scores = [];
    for (const precision of ["f32", "bf16", "int8"] as const) {
      const policy = await openPolicy({ model, precision, lora, threads: 1 });
      const { tree } = buildTokenTree([
        { tokens: Int32Array.of(1, 20, 30, 40, 50), learn: Uint8Array.of(0, 1, 1, 1, 1) },
      ]);
      scores.push(await policy.forward(tree).then(({ logprobs }) => [...logprobs]));
      await policy.close();
    }
    const [f32, bf16, int8] = scores;
    expect(bf16).toEqual(f32);
    expect(int8).not.toEqual(f32);
    const apart = Math.max(...int8!.map((x, i) => Math.abs(x - f32![i]!)));
    expect(apart).toBeLessThan(0.15);
  });

  it("refuses to train all of what is kept small, and says what to do", async () => {
    const file = await gguf(await wide("llama"), "Q8_0");
    for (const [model, options] of [
      [file, {}],
      [await bf16Model(), { precision: "int8" }],
    ] as const) {
      const policy = await openPolicy({ model, threads: 1, ...options });
      await expect(outcome(policy)).rejects.toMatchObject({
        code: "INVALID_OPTION",
        message: expect.stringContaining("kept as q8_0"),
        hint: expect.stringContaining("lora: true"),
      });
      await policy.close();
    }
    const policy = await openPolicy({ model: file, threads: 1, precision: "f32" });
    await outcome(policy);
    await policy.close();
  });

  it("is part of the plan, before a model is opened", async () => {
    const dir = await bf16Model();
    const config = await readModelConfig(dir);
    const stored = await checkWeights(dir, config);
    const bytes = (precision: "file" | "f32" | "bf16" | "int8") => weightBytes(stored, weightForms(stored, precision));
    expect(bytes("bf16")).toBe(bytes("file"));
    expect(bytes("file")).toBeGreaterThan(bytes("f32") / 2);
    expect(bytes("int8")).toBeLessThan(0.6 * bytes("bf16"));
    const plan = (options: object) => planFolder(dir, { ...planned, ...options });
    expect((await plan({})).weights).toBe(bytes("f32"));
    expect((await plan({ precision: "int8" })).weights).toBe(bytes("int8"));
    expect((await plan({ lora })).weights).toBeLessThan((await plan({ lora, precision: "f32" })).weights);
  });

  it("is one of four words", async () => {
    // @ts-expect-error
    await expect(openPolicy({ model: "x", precision: "int4" })).rejects.toMatchObject({ code: "INVALID_OPTION" });
  });
});
