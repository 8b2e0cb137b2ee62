/** Training on the activations of sampling, on the starter model. */

import { describe, expect, it } from "vitest";
import { readVector } from "../../test/read-vector.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { demoEnvironment, demoReward } from "../cli/demo/parts.ts";
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
    const { run: done } = await train({ ...settings, agent, ...run });
    const { trainedTokens = 0, reusedTokens = 0 } = agent.policy.stats();
    const weights = Buffer.from((await readVector(agent.policy, "parameters")).buffer);
    const plan = agent.policy.plan({ tokenBudget: 1, recompute: run.recompute ?? false, reference: false });
    return { metrics: done.metrics, weights, trainedTokens, reusedTokens, plan };
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
  });

  it("keeps what little it may, for the first of several updates", async () => {
    const little = 8 << 20;
    const some = await once({ activationBytes: little }, { updatesPerRollout: 2 });
    const none = await once({ activationBytes: 0 }, { updatesPerRollout: 2 });
    expect(some.metrics).toEqual(none.metrics);
    expect(some.weights.equals(none.weights)).toBe(true);
    expect(some.plan.keptActivations).toBeLessThanOrEqual(little);
    expect(some.reusedTokens).toBeLessThan(some.trainedTokens);
  });

  it("is left where passes compute twice to save memory", async () => {
    const recomputed = await once({ lora: true }, { recompute: true });
    expect(recomputed.reusedTokens).toBe(0);
    expect(recomputed.plan.keptActivations).toBe(0);
  });
});
