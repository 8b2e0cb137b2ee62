/** Training on the activations of sampling, on the starter model. */

import { describe, expect, it } from "vitest";
import { readVector } from "../../test/read-vector.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { demoEnvironment, demoReward } from "../cli/demo/parts.ts";
import { planTime } from "../cli/plan.ts";
import type { NativePolicy } from "../policy/native/native-policy.ts";
import { harvestBestOfN } from "../supervised/best-of-n.ts";
import type { TrainingStepEnd } from "./callbacks.ts";
import { resolveConfig } from "./config.ts";
import { train } from "./train.ts";

const settings = {
  environment: demoEnvironment({ heldOut: false }),
  reward: demoReward(),
  steps: 3,
  groupsPerStep: 2,
  groupSize: 4,
  maxTurns: 2,
  learningRate: 1e-4,
  warmup: 0,
  schedule: "constant",
  dir: false,
} as const;

async function once(
  options: { lora?: boolean; activationBytes?: number },
  run: { recompute?: boolean; updatesPerRollout?: number } = {},
) {
  const agent = new MultiTurnAgent({ threads: 2, sampling: { temperature: 0.9, maxTokens: 20 }, ...options });
  await agent.initialize();
  try {
    const reused: (number | undefined)[] = [];
    const callbacks = { onStepEnd: ({ timing }: TrainingStepEnd) => void reused.push(timing.reused) };
    const { run: done } = await train({ ...settings, agent, ...run, callbacks });
    const { trainedTokens = 0, reusedTokens = 0 } = agent.policy.stats();
    const weights = Buffer.from((await readVector(agent.policy, "parameters")).buffer);
    const plan = agent.policy.plan({ tokenBudget: 1, recompute: run.recompute ?? false, reference: false });
    return { metrics: done.metrics, weights, trainedTokens, reusedTokens, reused, plan };
  } finally {
    await agent.close();
  }
}

describe("training on the activations of sampling", { timeout: 300_000 }, () => {
  it.each([
    ["all weights", false],
    ["an adapter", true],
  ])("gives the metrics and %s that computing everything again gives", async (_, lora) => {
    const on = await once({ lora });
    const off = await once({ lora, activationBytes: 0 });
    expect(on.metrics).toEqual(off.metrics);
    expect(on.weights.equals(off.weights)).toBe(true);
    expect(on.trainedTokens).toBe(off.trainedTokens);
    expect(off.reusedTokens).toBe(0);
    expect(off.plan.keptActivations).toBe(0);
    // All but the last token of each conversation.
    expect(on.reusedTokens / on.trainedTokens).toBeGreaterThan(0.9);
    expect(on.plan.keptActivations).toBeGreaterThan(0);
    // Every step says so.
    expect(on.reused.every((share) => share! > 0.9 && share! < 1)).toBe(true);
    expect(off.reused).toEqual([0, 0, 0]);
  });

  it("keeps what little it may, for the first of several updates", async () => {
    // Of the 160 or so tokens of a step, about 100 have room: more than half, which a pass needs to make use of them.
    const little = 40 << 20;
    const some = await once({ activationBytes: little }, { updatesPerRollout: 2 });
    const none = await once({ activationBytes: 0 }, { updatesPerRollout: 2 });
    expect(some.metrics).toEqual(none.metrics);
    expect(some.weights.equals(none.weights)).toBe(true);
    expect(some.plan.keptActivations).toBeLessThanOrEqual(little);
    // Of all it would be just below half: of the second update's nothing can come from sampling.
    expect(some.reusedTokens).toBeGreaterThan(some.trainedTokens / 4);
    expect(some.reusedTokens).toBeLessThan(0.45 * some.trainedTokens);
  });

  it("is left where passes compute twice to save memory", async () => {
    const recomputed = await once({ lora: true }, { recompute: true });
    expect(recomputed.reusedTokens).toBe(0);
    expect(recomputed.plan.keptActivations).toBe(0);
  });

  it("is for updates: what is tried, or sampled to be chosen from, keeps nothing", async () => {
    const project = { environment: demoEnvironment({ heldOut: false }), reward: demoReward() };
    const agent = new MultiTurnAgent({ threads: 2, sampling: { temperature: 0.9, maxTokens: 4 } });
    const activationBytes = () => (agent.policy as NativePolicy).stats().activationBytes;
    await agent.initialize();
    try {
      const scenarios = project.environment.scenarios.slice(0, 1);
      await harvestBestOfN({ agent, ...project, scenarios, n: 2 });
      await planTime({ agent, ...project }, resolveConfig({ groupSize: 2 }));
      expect(activationBytes()).toBe(0);
      // The first step gives the memory to the optimiser's moments.
      await train({ ...settings, ...project, agent, steps: 2 });
      expect(activationBytes()).toBeGreaterThan(0);
    } finally {
      await agent.close();
    }
  });
});
