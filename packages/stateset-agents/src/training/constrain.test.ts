import { describe, expect, it } from "vitest";
import { z } from "zod";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import type { Trajectory } from "../conversation/trajectory.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import { evaluate } from "../evaluation/evaluate.ts";
import { rewardFunction } from "../reward/define-reward.ts";
import { tool } from "../tool/tool.ts";
import { train } from "./train.ts";

const book = tool({
  name: "book_table",
  parameters: z.object({ city: z.enum(["Köln", "東京"]), people: z.int().min(1).max(9) }),
  execute: () => "Booked.",
});

/** It opens a call with the first token, since that of `<tool_call>` is made likely. */
async function openAgent(constrain: boolean) {
  const agent = new MultiTurnAgent({
    ...{ tools: [book], constrain, threads: 1, seed: 1, maxToolSteps: 0 },
    sampling: { temperature: 1.5, maxTokens: 40, logitBias: { 3: 30 } },
  });
  await agent.initialize();
  return agent;
}

const environment = new ConversationEnvironment({
  scenarios: [{ id: "book", userResponses: ["Book a table."] }],
  maxTurns: 1,
});
const reward = rewardFunction({ name: "length" }, ({ turns }) => turns.at(-1)!.sampled!.text.length);

async function learn(agentHasIt: boolean, constrain: boolean | undefined) {
  const agent = await openAgent(agentHasIt);
  const trajectories: Trajectory[] = [];
  const { run } = await train({
    ...{ agent, environment, reward, dir: false, steps: 1, groupsPerStep: 1, groupSize: 4, recall: false },
    ...(constrain !== undefined && { constrain }),
    callbacks: {
      onRollouts: ({ groups }) => void trajectories.push(...groups.flatMap((group) => group.trajectories)),
    },
  });
  await agent.close();
  return { trajectories, metrics: run.metrics[0]! };
}

describe("training an agent whose calls are constrained", () => {
  it("does not constrain them by itself", async () => {
    const { trajectories, metrics } = await learn(true, undefined);
    expect(trajectories.some(({ turns }) => turns.some(({ sampled }) => sampled?.constrained))).toBe(false);
    expect(metrics.removedMass).toBeUndefined();
  });

  it("does where it is told to: forced tokens do not learn, and what was removed is a metric", async () => {
    const { trajectories, metrics } = await learn(false, true);
    const notes = trajectories.flatMap(({ turns }) => turns.flatMap(({ sampled }) => sampled?.constrained ?? []));
    const sum = (of: "tokens" | "forced" | "removed") => notes.reduce((total, one) => total + one[of], 0);
    expect(notes).toHaveLength(4);
    expect(metrics.constrainedTokens).toBe(sum("tokens"));
    expect(metrics.forcedTokens).toBe(sum("forced"));
    expect(metrics.removedMass).toBeCloseTo(sum("removed") / sum("tokens"), 10);
    expect(sum("forced")).toBeGreaterThan(0);
    const sampled = trajectories
      .flatMap(({ chains }) => chains)
      .map(({ learn, turn }) => [
        turn.filter((index) => index >= 0).length,
        learn.reduce((total, one) => total + one, 0),
      ]);
    const left = sampled.reduce((total, [all, learnt]) => total + all! - learnt!, 0);
    expect(left).toBe(sum("forced"));
    // Log-probs are those of the whole distribution, as scoring has them.
    expect(metrics.firstRatioMax).toBe(1);
  });

  it("is as the agent has it in evaluations, unless they are told otherwise", async () => {
    const agent = await openAgent(true);
    const constrained = async (constrain?: boolean) => {
      const options = { agent, environment, reward, samples: 1, ...(constrain !== undefined && { constrain }) };
      const { groups } = await evaluate(options);
      return groups[0]!.trajectories[0]!.turns.some(({ sampled }) => sampled?.constrained !== undefined);
    };
    expect(await constrained()).toBe(true);
    expect(await constrained(false)).toBe(false);
    await agent.close();
  });
});
