import { join } from "node:path";
import { starterModelPath } from "@stateset-agents/starter-model";
import { expect, it } from "vitest";
import { readVector } from "../../../test/read-vector.ts";
import { makeTinyModel, temporaryFolder } from "../../../test/tiny-model.ts";
import { MultiTurnAgent } from "../../agent/multi-turn-agent.ts";
import { buildTokenTree } from "../../conversation/token-tree.ts";
import { trainPreference } from "../../preference/train-preference.ts";
import { rewardFunction } from "../../reward/define-reward.ts";
import { modelFacts } from "../../run/config.ts";
import { trainSupervised } from "../../supervised/train-supervised.ts";
import { gain, tableEnvironment } from "../../test-support/table-training.ts";
import { train } from "../../training/train.ts";
import { openPolicy } from "../open-policy.ts";
import type { Policy } from "../policy.ts";
import { openWeights } from "../weights/index.ts";
import { planFolder } from "./memory.ts";

const model = () => makeTinyModel("llama", { hidden_size: 64, intermediate_size: 96 });
const lora = { rank: 4, alpha: 8, dropout: 0.1, targetModules: "all-linear" } as const;
const { tree } = buildTokenTree([
  { tokens: Int32Array.of(1, 20, 30, 40, 50, 60), learn: Uint8Array.of(0, 1, 1, 1, 1, 1) },
]);

async function learn(policy: Policy, steps: number): Promise<void> {
  for (let step = 0; step < steps; step++) {
    const pass = await policy.forward(tree, { values: true });
    await policy.backward(pass, { logprobs: pass.logprobs.map(() => -1), values: pass.logprobs.map(() => 0.1) });
    await policy.step({ learningRate: 1e-3, clipNorm: 1 });
  }
}

it.each([
  ["all weights", undefined],
  ["an adapter", lora],
])("moments in bf16, of %s, go on from a snapshot bit for bit", async (_, adapter) => {
  const dir = await model();
  const open = (moments: "f32" | "bf16") =>
    openPolicy({ model: dir, threads: 1, moments, ...(adapter && { lora: adapter }) });
  const [wide, policy, other] = [await open("f32"), await open("bf16"), await open("bf16")];
  for (const one of [wide, policy]) {
    await one.addValueHead();
    await learn(one, 4);
  }
  expect(await readVector(policy, "parameters")).not.toEqual(await readVector(wide, "parameters"));
  const snapshot = temporaryFolder();
  await policy.snapshot(snapshot);
  const stored = await openWeights(join(snapshot, "policy-00001-of-00001.safetensors"));
  const types = (moments: boolean) =>
    new Set(stored.names.filter((name) => /:[mv]$/.test(name) === moments).map((name) => stored.info(name).dtype));
  expect([types(true), types(false)]).toEqual([new Set(["BF16"]), new Set(["F32"])]);
  await stored.close();
  await other.restore(snapshot);
  for (const one of [policy, other]) await learn(one, 3);
  expect(await readVector(other, "parameters")).toEqual(await readVector(policy, "parameters"));
  await Promise.all([wide.close(), policy.close(), other.close()]);
});

it("refuses by name to go on from moments of the other precision, and changes nothing", async () => {
  const dir = await model();
  const [wide, half] = [
    await openPolicy({ model: dir, threads: 1 }),
    await openPolicy({ model: dir, threads: 1, moments: "bf16" }),
  ];
  for (const one of [wide, half]) await one.addValueHead();
  for (const [from, to, there] of [
    [wide, half, "f32"],
    [half, wide, "bf16"],
  ] as const) {
    await learn(from, 1);
    const snapshot = temporaryFolder();
    await from.snapshot(snapshot);
    const before = await readVector(to, "parameters");
    await expect(to.restore(snapshot)).rejects.toMatchObject({
      code: "CHECKPOINT_MISMATCH",
      message: expect.stringContaining(`moments in ${there}`),
      hint: expect.stringContaining(`moments: "${there}"`),
    });
    expect(await readVector(to, "parameters")).toEqual(before);
    // Its weights alone have no moments to round.
    await to.load(snapshot);
    expect(await readVector(to, "parameters")).toEqual(await readVector(from, "parameters"));
  }
  await Promise.all([wide.close(), half.close()]);
});

it("takes half the memory of f32, as planned before a model is opened and after, and is said in config.json", async () => {
  const dir = await model();
  const options = { tokenBudget: 64, recompute: false, reference: true, cacheBytes: 0 };
  const [f32, bf16] = [await planFolder(dir, options), await planFolder(dir, { ...options, moments: "bf16" })];
  expect(bf16.optimiser / f32.optimiser).toBe(2 / 3);
  expect(f32.total - bf16.total).toBe(4 * f32.parameters);
  const policy = await openPolicy({ model: dir, threads: 1, moments: "bf16" });
  expect(policy.plan(options).optimiser).toBe(bf16.optimiser);
  expect(modelFacts(policy.model)).toMatchObject({ moments: "bf16" });
  const wide = await openPolicy({ model: dir, threads: 1 });
  expect(modelFacts(wide.model)).not.toHaveProperty("moments");
  await Promise.all([policy.close(), wide.close()]);
});

it("raises the reward as f32 does, and serves the learners from data", async () => {
  const curve = async (moments: "f32" | "bf16") => {
    const sampling = { maxTokens: 12, temperature: 1 };
    const agent = new MultiTurnAgent({ model: starterModelPath, moments, threads: 1, sampling, seed: 3 });
    const { run } = await train({
      ...{ agent, environment: tableEnvironment(), dir: false, seed: 3 },
      reward: rewardFunction({ name: "brief" }, ({ turns }) => 1 / (1 + turns.at(-1)!.content.length / 20)),
      ...{ steps: 6, groupsPerStep: 2, groupSize: 6, learningRate: 5e-4, schedule: "constant", warmup: 0 },
    });
    const steps = run.metrics.filter(({ step }) => step > 0);
    return { agent, rewards: steps.map(({ reward }) => reward!), norms: steps.map(({ gradNorm }) => gradNorm!) };
  };
  const [f32, bf16] = [await curve("f32"), await curve("bf16")];
  // The first step is the very same: it moves by moments that are not rounded yet.
  expect(bf16.norms.slice(0, 2)).toEqual(f32.norms.slice(0, 2));
  expect(bf16.norms[2]).not.toBe(f32.norms[2]);
  expect(gain(bf16.rewards)).toBeGreaterThan(0.05);
  expect(gain(bf16.rewards)).toBeGreaterThan(0.6 * gain(f32.rewards));
  const { agent } = bf16;
  const prompt = [{ role: "user" as const, content: "Where is my order?" }];
  const reply = (content: string) => [{ role: "assistant" as const, content }];
  const fitted = { agent, dir: false, epochs: 4, batchSize: 1, learningRate: 1e-3 } as const;
  const examples = [{ messages: [...prompt, ...reply("It is on its way.")] }];
  const { losses } = await trainSupervised({ ...fitted, examples });
  expect(losses.at(-1)).toBeLessThan(losses[0]!);
  const pairs = [{ prompt, chosen: reply("It is here."), rejected: reply("No.") }];
  const preference = await trainPreference({ ...fitted, pairs });
  expect(preference.losses.at(-1)).toBeLessThan(preference.losses[0]!);
  await Promise.all([f32.agent.close(), agent.close()]);
});
