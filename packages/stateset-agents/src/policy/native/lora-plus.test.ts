/** LoRA+: the B matrices of an adapter learn `loraPlusRatio` times faster than A. */

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readVector } from "../../../test/read-vector.ts";
import { makeTinyModel, temporaryFolder } from "../../../test/tiny-model.ts";
import { trainPreference } from "../../preference/train-preference.ts";
import type { RunChoice } from "../../run/options.ts";
import { createTablePolicy } from "../../test-support/table-policy.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "../../test-support/table-training.ts";
import { train } from "../../training/train.ts";
import { openPolicy } from "../open-policy.ts";
import type { LoraOptions, Policy, StepOptions } from "../policy.ts";
import { openWeights } from "../weights/index.ts";
import { loadNativePolicy } from "./load.ts";

const root = temporaryFolder();

const lora: LoraOptions = { rank: 3, alpha: 6, dropout: 0, targetModules: "all-linear" };
const tokens = Int32Array.from({ length: 12 }, (_, i) => (i * 37 + 5) % 512);

async function learn(policy: Policy, options: StepOptions): Promise<void> {
  const pass = await policy.forward({
    tokens,
    nodeStart: Int32Array.of(0, tokens.length),
    nodeParent: Int32Array.of(-1),
    wanted: Uint8Array.from(tokens, (_, i) => (i > 0 ? 1 : 0)),
  });
  await policy.backward(pass, { logprobs: Float32Array.from(tokens, (_, i) => (i > 0 ? -0.1 : 0)) });
  expect((await policy.step(options)).applied).toBe(true);
}

async function adapter(policy: Policy): Promise<Map<string, Float32Array>> {
  const dir = await temporaryFolder();
  await policy.save(dir);
  const weights = await openWeights(join(dir, "adapter_model.safetensors"));
  const all = new Map<string, Float32Array>();
  for (const name of weights.names) all.set(name, await weights.read(name));
  await weights.close();
  return all;
}

/** How each tensor moves in a second step, after one that left B no longer zero. */
async function secondMove(ratio: number | undefined): Promise<Map<string, Float32Array>> {
  const policy = await loadNativePolicy({ dir: await makeTinyModel("llama"), lora, threads: 1 });
  await learn(policy, { learningRate: 1e-3 });
  const before = await adapter(policy);
  await learn(policy, { learningRate: 1e-3, ...(ratio !== undefined && { loraPlusRatio: ratio }) });
  const after = await adapter(policy);
  await policy.close();
  return new Map([...after].map(([name, to]) => [name, to.map((value, i) => value - before.get(name)![i]!)]));
}

describe("step({ loraPlusRatio })", () => {
  it("moves A as without it and B by the ratio", async () => {
    const [plain, one, eight] = [await secondMove(undefined), await secondMove(1), await secondMove(8)];
    expect([...plain.keys()].some((name) => /lora_B/.test(name))).toBe(true);
    for (const [name, moved] of plain) {
      expect(one.get(name), name).toEqual(moved);
      expect(Math.max(...moved.map(Math.abs)), name).toBeGreaterThan(1e-5);
      if (/lora_A/.test(name)) expect(eight.get(name), name).toEqual(moved);
      // Differences of float32 weights: each is off by half a unit of the weight's last place.
      else for (const [i, value] of moved.entries()) expect(eight.get(name)![i]!).toBeCloseTo(8 * value, 6);
    }
  });

  it.each([0, -1, Number.NaN, Infinity])(
    "refuses a ratio of %s and leaves the weights alone",
    async (loraPlusRatio) => {
      const policy = await loadNativePolicy({ dir: await makeTinyModel("llama"), lora, threads: 1 });
      await expect(policy.step({ learningRate: 0.1, loraPlusRatio })).rejects.toMatchObject({
        code: "INVALID_OPTION",
        message: expect.stringContaining("loraPlusRatio"),
      });
      await policy.close();
    },
  );

  it("refuses it without an adapter", async () => {
    const policy = await loadNativePolicy({ dir: await makeTinyModel("llama"), threads: 1 });
    await expect(policy.step({ learningRate: 0.1, loraPlusRatio: 4 })).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringContaining("no adapter"),
    });
    await policy.close();
  });
});

describe("the option loraPlusRatio of a learner", () => {
  const pairs = [
    { prompt: "Late.", chosen: "I am sorry.", rejected: "No." },
    { prompt: "Broken.", chosen: "Oh, sorry.", rejected: "So?" },
  ];
  const fit = async (options: RunChoice & { loraPlusRatio?: number }) => {
    const policy = await openPolicy({ lora: { ...lora, rank: 2 }, threads: 1 });
    const settings = { epochs: 2, batchSize: 1, learningRate: 1e-3, checkpoint: { every: 1 } } as const;
    const { run } = await trainPreference({ policy, pairs, ...settings, ...options });
    const vector = await readVector(policy, "parameters");
    await policy.close();
    return { run, vector };
  };

  it("reaches the engine, is in config.json, and a stopped run goes on with it to the same bits", async () => {
    const [whole, stopped] = [join(root, "whole"), join(root, "stopped")];
    const plus = await fit({ dir: whole, name: "run", loraPlusRatio: 8 });
    expect(plus.vector).not.toEqual((await fit({ dir: false })).vector);
    expect(JSON.parse(readFileSync(join(whole, "config.json"), "utf8")).settings.loraPlusRatio).toBe(8);
    const stop = new AbortController();
    const onStepEnd = ({ step }: { step: number }) => void (step === 2 && stop.abort());
    await fit({ dir: stopped, name: "run", loraPlusRatio: 8, callbacks: { onStepEnd }, signal: stop.signal });
    const { run, vector } = await fit({ resumeFrom: stopped });
    expect(run).toMatchObject({ status: "finished", warnings: [] });
    expect(vector).toEqual(plus.vector);
    const files = (readdirSync(whole, { recursive: true }) as string[]).filter(
      (file) => !/status\.json|timing\.jsonl/.test(file) && statSync(join(whole, file)).isFile(),
    );
    expect(files.length).toBeGreaterThan(5);
    for (const file of files) {
      expect(readFileSync(join(stopped, file)).equals(readFileSync(join(whole, file))), file).toBe(true);
    }
  });

  it("is refused by name where nothing would read it", async () => {
    const policy = createTablePolicy();
    const given = { policy, dir: false as const, pairs: [{ prompt: "order", chosen: "ok", rejected: "no" }] };
    await expect(trainPreference({ ...given, loraPlusRatio: 4 })).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringMatching(/loraPlusRatio .* has no adapter/),
    });
    await expect(trainPreference({ ...given, loraPlusRatio: 0.5 })).rejects.toMatchObject({ code: "INVALID_OPTION" });
    const other = createTablePolicy();
    Object.defineProperty(other, "model", { value: { ...other.model, lora } });
    await expect(trainPreference({ ...given, policy: other, loraPlusRatio: 4 })).rejects.toMatchObject({
      code: "CAPABILITY_MISSING",
    });
    const reward = new FunctionReward(politeShare);
    const run = { agent: tableAgent().agent, environment: tableEnvironment(), reward, dir: false as const, steps: 1 };
    await expect(train({ ...run, loraPlusRatio: 4 })).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringMatching(/loraPlusRatio/),
    });
    await expect(train({ ...run, algorithm: "trpo", loraPlusRatio: 4 })).rejects.toMatchObject({
      message: expect.stringMatching(/trpo has no learning rate/),
    });
  });
});
