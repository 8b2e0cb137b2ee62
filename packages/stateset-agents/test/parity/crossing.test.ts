/** A run's state from the embedded engine to PyTorch and back: every number and every moment must be the same. Needs STATESET_PYTHON. */
import { execFileSync } from "node:child_process";
import { cp, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import { loadNativePolicy, type NativePolicyOptions } from "../../src/policy/native/load.ts";
import type { NativePolicy } from "../../src/policy/native/native-policy.ts";
import type { LoraOptions, Policy, TokenTree } from "../../src/policy/policy.ts";
import { openWeights } from "../../src/policy/weights/index.ts";
import { readVector } from "../read-vector.ts";
import { architectures, makeTinyModel, plainTargets, temporaryFolder } from "../tiny-model.ts";

const python = process.env.STATESET_PYTHON;
const script = fileURLToPath(new URL("./crossing.py", import.meta.url));
const lora: LoraOptions = { rank: 3, alpha: 5, dropout: 0.1, targetModules: "all-linear" };
const cases = [
  ...architectures.map((architecture) => ({ architecture, adapter: undefined, learn: false })),
  ...architectures.map((architecture) => ({
    ...{ architecture, learn: false },
    adapter: {
      ...{ ...lora, targetModules: plainTargets(architecture) },
      ...(architecture !== "gpt2" && { alphaPattern: { "mlp.down_proj": 2 } }),
    },
  })),
  { architecture: "qwen3", adapter: undefined, learn: true },
  { architecture: "qwen2", adapter: lora, learn: true },
  // Opened from a folder, whose adapter_config.json says what it is.
  { architecture: "llama", adapter: { ...lora, alphaPattern: { v_proj: 11 } }, learn: true, saved: true },
  { architecture: "gpt2", adapter: lora, learn: false },
  { architecture: "phi3", adapter: lora, learn: false },
] as const;
/** Those with an adapter on layers that are one to PEFT and several to the engine. */
const refused = cases.filter(
  ({ architecture, adapter }) => adapter === lora && plainTargets(architecture) !== "all-linear",
);

const tokens = Int32Array.from({ length: 20 }, (_, i) => 5 + i);
const tree: TokenTree = {
  tokens,
  nodeStart: Int32Array.of(0, 20),
  nodeParent: Int32Array.of(-1),
  wanted: Uint8Array.from(tokens, (_, i) => (i > 0 ? 1 : 0)),
};

function expectSame(a: Map<string, Float32Array>, b: Map<string, Float32Array>): void {
  expect([...a.keys()].sort()).toEqual([...b.keys()].sort());
  for (const [name, data] of a)
    expect(Buffer.from(data.buffer).equals(Buffer.from(b.get(name)!.buffer)), name).toBe(true);
}

async function learn(policy: Policy): Promise<void> {
  const pass = await policy.forward(tree, { values: true });
  const [logprobs, values] = [new Float32Array(20).fill(-1 / 20), new Float32Array(20).fill(1 / 20)];
  await policy.backward(pass, { logprobs: logprobs.fill(0, 0, 1), values });
  await policy.step({ learningRate: 1e-2, weightDecay: 0.01 });
}

async function savedAdapter(options: NativePolicyOptions): Promise<string> {
  const [policy, dir] = [await loadNativePolicy(options), temporaryFolder()];
  await policy.addValueHead();
  await learn(policy);
  await policy.save(dir);
  await policy.close();
  return dir;
}

/** The client adds the tokenizer to what the worker saved. */
async function openSaved(dir: string, model: string): Promise<NativePolicy> {
  for (const name of ["tokenizer.json", "tokenizer_config.json"]) await cp(join(model, name), join(dir, name));
  return loadNativePolicy({ dir });
}

const scores = async (policy: Policy) => (await policy.forward(tree, { grad: false })).logprobs;

async function tensorsIn(dir: string): Promise<Map<string, Float32Array>> {
  const all = new Map<string, Float32Array>();
  for (const file of (await readdir(dir)).filter((name) => name.endsWith(".safetensors"))) {
    const weights = await openWeights(join(dir, file));
    for (const name of weights.names) all.set(name, await weights.read(name));
    await weights.close();
  }
  return all;
}

interface Crossed {
  model: string;
  options: NativePolicyOptions;
  policy: NativePolicy;
  from: string;
  reference: string;
  to: string;
  said: Record<string, unknown>;
}

describe.skipIf(!python)("a snapshot that crosses to PyTorch and back", { timeout: 300_000 }, () => {
  const crossed: Crossed[] = [];

  beforeAll(async () => {
    for (const { architecture, adapter, ...more } of cases) {
      const model = await makeTinyModel(architecture);
      let options: NativePolicyOptions = { dir: model, ...(adapter && { lora: adapter as LoraOptions }) };
      if ("saved" in more) options = { dir: await savedAdapter(options) };
      const policy = await loadNativePolicy(options);
      await policy.addValueHead();
      for (let i = 0; i < 2; i++) await learn(policy);
      const [from, reference, to] = [temporaryFolder(), temporaryFolder(), temporaryFolder()];
      await policy.snapshot(from);
      await (await policy.reference()).save(reference);
      crossed.push({ model, options, policy, from, reference, to, said: {} });
    }
    const told = crossed.map(({ model, options, from, reference, to }, i) => ({
      ...{ model, adapter: options.dir === model ? null : options.dir, lora: options.lora ?? null },
      ...{ from, reference, to, learn: cases[i]!.learn },
    }));
    const output = execFileSync(python!, ["-W", "ignore", script, JSON.stringify(told)], { encoding: "utf8" });
    (JSON.parse(output) as Record<string, unknown>[]).forEach((said, i) => {
      crossed[i]!.said = said;
    });
  }, 300_000);

  it.each(
    [...cases.entries()]
      .filter(([, each]) => !refused.includes(each))
      .map(([i, { architecture, adapter, learn }]) => ({
        i,
        of: `${architecture}, ${adapter ? "lora" : "full"}`,
        learn,
      })),
  )("keeps every number of $of (a step there: $learn)", async ({ i, learn: learnt }) => {
    const { model, options, policy, from, reference, to, said } = crossed[i]!;
    expect(said).toMatchObject({ version: policy.version, valueHead: true, steps: learnt ? [3, 3] : [2, 2] });
    const there = await tensorsIn(join(to, "snapshot"));
    if (!learnt) expectSame(there, await tensorsIn(from));
    const back = await loadNativePolicy(options);
    await back.restore(join(to, "snapshot"));
    const again = temporaryFolder();
    await back.snapshot(again);
    expectSame(await tensorsIn(again), there);
    const [state, before] = [again, from].map(async (dir) =>
      JSON.parse(await readFile(join(dir, "policy.json"), "utf8")),
    );
    const { shards: _, steps, dropoutPasses, ...rest } = await state;
    const { shards: __, steps: ___, dropoutPasses: passes, ...expected } = await before;
    expect(rest).toEqual(expected);
    expect([steps, dropoutPasses]).toEqual([said.steps, rest.lora && learnt ? passes + 1 : passes]);
    const saved = await openSaved(join(to, "saved"), model);
    expect(await scores(saved)).toEqual(await scores(back));
    const merged = await openSaved(join(to, "merged"), model);
    const ofMerged = await scores(merged);
    (await scores(back)).forEach((value, at) => {
      expect(Math.abs(value - ofMerged[at]!)).toBeLessThan(1e-4);
    });
    expectSame(await tensorsIn(join(to, "reference")), await tensorsIn(reference));
    const frozen = await back.reference({ from: join(to, "reference") });
    expect(await frozen.logprobs(tree)).toEqual(await (await policy.reference({ from: reference })).logprobs(tree));
    if (!learnt) {
      // As if it had stayed.
      for (const each of [policy, back]) await learn(each);
      expect(await readVector(back, "parameters")).toEqual(await readVector(policy, "parameters"));
    }
    await Promise.all([policy, back, saved, merged].map((each) => each.close()));
  });

  it("is refused where an adapter sits on layers that lie in one matrix, and says why", () => {
    const messages = refused.map((each) => {
      const { code, message } = crossed[cases.indexOf(each)]!.said;
      return `${code} ${message}`;
    });
    expect(messages).toEqual([
      expect.stringMatching(/^CHECKPOINT_MISMATCH .*for each of the q, k and v of transformer\.h\.0\.attn\.c_attn/),
      expect.stringMatching(
        /^CHECKPOINT_MISMATCH .*for each of the q, k and v of model\.layers\.0\.self_attn\.qkv_proj/,
      ),
    ]);
  });
});
