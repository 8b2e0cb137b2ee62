import { describe, expect, it } from "vitest";
import { tokenRewards } from "../algorithm/advantage/turn-credit.ts";
import type { Turn } from "../conversation/trajectory.ts";
import { TaskEnvironment } from "../environment/task-environment.ts";
import { evaluate } from "../evaluation/evaluate.ts";
import { sequencesOf } from "../learning/sequence.ts";
import { EnvironmentReward } from "../reward/builtin/environment.ts";
import { TaskCompletionReward } from "../reward/builtin/task-completion.ts";
import { CompositeReward } from "../reward/composite-reward.ts";
import { rewardFunction } from "../reward/define-reward.ts";
import { harvestBestOfN } from "../supervised/best-of-n.ts";
import { gain, politeShare, quickRun, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { train } from "./train.ts";

/** Nothing for the whole, a third for every polite reply. */
const byTurn = rewardFunction({ name: "byTurn" }, ({ turns }) => ({
  score: 0,
  turns: Object.fromEntries(
    turns.flatMap((turn, i) => (turn.role === "assistant" ? [[i, politeShare([turn]) / 3]] : [])),
  ),
}));

const tasks = new TaskEnvironment({
  tasks: [{ id: "greet", goal: "help order" }],
  check: (reply) => reply.content.includes("please"),
  maxTurns: 2,
});

describe("a reward that is given on single turns alone", () => {
  it.each(["grpo", "gspo", "rloo", "dapo"] as const)("teaches %s, and is what the metrics show", async (algorithm) => {
    const { agent } = tableAgent();
    const { run } = await train({ ...quickRun, agent, reward: byTurn, algorithm, seed: 1 });
    const rewards = run.metrics.map(({ reward }) => reward!);
    expect(gain(rewards)).toBeGreaterThan(0.2);
    expect(run.metrics.at(-1)!["part/byTurn"]).toBe(rewards.at(-1));
  });

  it("is what evaluations, best-of-N and records have", async () => {
    const { agent } = tableAgent({ spread: 1 });
    const environment = tableEnvironment();
    const { reward, groups } = await evaluate({ agent, environment, reward: byTurn });
    const polite = groups.map(
      ({ trajectories }) => trajectories.reduce((sum, { turns }) => sum + politeShare(turns), 0) / trajectories.length,
    );
    expect(reward.mean).toBeGreaterThan(0);
    expect(reward.mean).toBeCloseTo(polite.reduce((a, b) => a + b, 0) / polite.length, 10);
    const { kept } = await harvestBestOfN({ agent, environment, reward: byTurn });
    expect(kept.length).toBeGreaterThan(0);
    for (const one of kept)
      expect(one.reward).toMatchObject({ score: expect.closeTo(politeShare(one.turns)), turnsInScore: true });
  });
});

describe("what an environment gives itself", () => {
  const placed = async (reward?: CompositeReward | TaskCompletionReward) => {
    const { agent } = tableAgent({ spread: 1 });
    const { groups } = await harvestBestOfN({ agent, environment: tasks, reward });
    const solved = (turns: readonly Turn[]) => (politeShare(turns) > 0 ? 1 : 0);
    const trajectories = groups.flatMap((group) => group.trajectories);
    return sequencesOf(groups).map((sequence, i) => ({
      success: solved(trajectories[i]!.turns),
      reward: sequence.reward,
      sum: tokenRewards(sequence).reduce((a, b) => a + b, 0),
    }));
  };

  it("counts once where a reward asks for the same: success is 1, not 2", async () => {
    for (const reward of [undefined, new TaskCompletionReward()]) {
      const all = await placed(reward);
      expect(new Set(all.map(({ success }) => success))).toEqual(new Set([0, 1]));
      for (const { success, reward, sum } of all) expect([reward, sum]).toEqual([success, success]);
    }
  });

  it("counts as a part of the reward where it is named as one, with its weight", async () => {
    const never = rewardFunction({ name: "never", weight: 0.25 }, () => 0);
    const parts = [new EnvironmentReward({ weight: 0.75 }), never];
    for (const { success, reward, sum } of await placed(new CompositeReward(parts))) {
      expect([reward, sum]).toEqual([0.75 * success, 0.75 * success]);
    }
  });
});
