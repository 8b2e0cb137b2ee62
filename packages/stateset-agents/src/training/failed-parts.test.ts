/** Parts of a reward that fail must be seen, also where the whole goes on without them. */
import { describe, expect, it } from "vitest";
import { evaluate } from "../evaluation/evaluate.ts";
import { CompositeReward, type OnFailure } from "../reward/composite-reward.ts";
import { rewardFunction } from "../reward/define-reward.ts";
import { politeShare, quickRun, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { train } from "./train.ts";

const polite = rewardFunction({ name: "polite" }, ({ turns }) => politeShare(turns));
/** A judge that is down for conversations of these scenarios. */
const judge = (down: (id: string) => boolean, score = 0.75) =>
  rewardFunction({ name: "judge" }, ({ scenario }) => {
    if (down(scenario!.id)) throw new Error("the judge is down");
    return score;
  });
const mixed = (onFailure: OnFailure, down: (id: string) => boolean = () => true) =>
  new CompositeReward([polite, judge(down)], { onFailure });
const heldOut = [{ id: "held", userResponses: ["help card"] }];

describe("a part of a reward that fails", { timeout: 120_000 }, () => {
  it.each<[OnFailure]>([["skip"], [{ score: 0.5 }]])(
    "is said once and counted in every step: %j",
    async (onFailure) => {
      const { agent } = tableAgent();
      const { run } = await train({ ...quickRun, agent, reward: mixed(onFailure), steps: 3 });
      const said = run.warnings.filter(({ kind }) => kind === "reward-part-failed");
      expect(said.map(({ step }) => step)).toEqual([1]);
      expect(said[0]!.message).toMatch(
        /the part "judge" of the reward failed in 32 of 32 conversations.*judge is down/,
      );
      expect(run.metrics.map((one) => one["partFailures/judge"])).toEqual([32, 32, 32]);
      // A score that only stands in for it is no mean of it.
      expect(run.metrics.map((one) => one["part/judge"])).toEqual([undefined, undefined, undefined]);
      expect(run.metrics.every((one) => one["part/polite"] !== undefined)).toBe(true);
    },
  );

  it("is left out of its own mean where it failed, and no more", async () => {
    const { agent } = tableAgent();
    const reward = mixed("skip", (id) => id === "scenario-0");
    const { run } = await train({ ...quickRun, agent, reward, steps: 1 });
    expect(run.metrics[0]).toMatchObject({ "partFailures/judge": 8, "part/judge": 0.75 });
  });

  it.each<[OnFailure]>([["skip"], [{ score: 0 }]])("is not a zero in evaluate(): %j", async (onFailure) => {
    const { agent } = tableAgent();
    const environment = tableEnvironment();
    const reward = mixed(onFailure, (id) => id !== "scenario-1");
    const { parts, partFailures, failed } = await evaluate({ agent, environment, reward, samples: 2 });
    expect(parts.judge).toMatchObject({ mean: 0.75, count: 1 });
    expect(parts.polite!.count).toBe(4);
    expect({ partFailures, failed }).toEqual({ partFailures: { judge: 6 }, failed: 0 });
    const none = await evaluate({ agent, environment, reward: mixed(onFailure), samples: 2 });
    expect(none.parts.judge).toBeUndefined();
    expect(none.partFailures).toEqual({ judge: 8 });
  });

  it("is said of held-out evaluations, too", async () => {
    const { agent } = tableAgent();
    const reward = mixed("skip", (id) => id === "held");
    const { run } = await train({ ...quickRun, agent, reward, heldOut, steps: 2, evaluation: { every: 1 } });
    const said = run.warnings.filter(({ kind }) => kind === "reward-part-failed");
    expect(said.map(({ step }) => step)).toEqual([0]);
    expect(said[0]!.message).toContain(
      'the part "judge" of the reward failed in 4 of 4 conversations of the evaluation',
    );
    expect(run.metrics.map((one) => one["selection/partFailures/judge"])).toEqual([4, 4, 4]);
  });

  it("is named as a part of a part", async () => {
    const { agent } = tableAgent();
    const inner = new CompositeReward([polite, judge(() => true)], { name: "inner", onFailure: "skip" });
    const reward = new CompositeReward([inner, rewardFunction({ name: "one" }, () => 1)]);
    const { partFailures } = await evaluate({ agent, environment: tableEnvironment(), reward, samples: 1 });
    expect(partFailures).toEqual({ "inner.judge": 4 });
  });

  it.each([
    ["some", (id: string) => id === "scenario-0"],
    ["all", () => true],
  ] as const)("does not end a run with rewardWeights when %s of it is skipped", async (_, down) => {
    const { agent, policy } = tableAgent();
    const before = Float32Array.from(policy.parameters);
    const rewardWeights = { polite: 1, judge: 1 };
    const { run } = await train({
      ...quickRun,
      agent,
      reward: mixed("skip", down),
      steps: 2,
      algorithm: "grpo",
      rewardWeights,
    });
    expect(run.status).toBe("finished");
    expect(run.warnings.map(({ kind }) => kind)).toEqual(["reward-part-failed"]);
    expect(policy.parameters).not.toEqual(before);
  });

  it("still has a misspelt part refused", async () => {
    const { agent } = tableAgent();
    const options = { ...quickRun, agent, reward: mixed("skip"), algorithm: "grpo" as const };
    await expect(train({ ...options, rewardWeights: { polit: 1 } })).rejects.toThrow(/names "polit".*"polite"/s);
  });
});
