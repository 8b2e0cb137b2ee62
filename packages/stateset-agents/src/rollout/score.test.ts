/** `score`: what rewards are told of how likely replies are under the model as it was before training. */
import { describe, expect, it } from "vitest";
import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import { evaluate } from "../evaluation/evaluate.ts";
import type { Reference } from "../policy/policy.ts";
import { PolitenessReward } from "../reward/builtin/politeness.ts";
import { rewardFunction } from "../reward/define-reward.ts";
import type { TurnScore } from "../reward/reward-function.ts";
import { politeShare, quickRun, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { train } from "../training/train.ts";

/** An agent whose references are counted: how many are open, and the passes they made. */
function watched() {
  const { agent, policy } = tableAgent();
  const seen = { made: 0, open: 0, passes: 0 };
  const { reference } = policy;
  policy.reference = async (of) => {
    const made = await reference.call(policy, of);
    seen.made++;
    seen.open++;
    return {
      ...made,
      logprobs: (...args: Parameters<Reference["logprobs"]>) => {
        seen.passes++;
        return made.logprobs(...args);
      },
      close: async () => {
        seen.open--;
        await made.close();
      },
    } as Reference;
  };
  return { agent, policy, seen };
}

/** Pays politeness and looks at the scores, which it keeps. */
const curious = (kept: TurnScore[][] = []) =>
  rewardFunction({ name: "curious" }, async ({ turns }, { score }) => {
    kept.push(await score!(turns));
    return politeShare(turns);
  });
const plain = rewardFunction({ name: "curious" }, ({ turns }) => politeShare(turns));
const evaluation = { environment: tableEnvironment(), samples: 4, seed: 3 };
const sampledLogprobs = (groups: readonly TrajectoryGroup[]) =>
  groups.flatMap(({ trajectories }) =>
    trajectories.map(({ chains }) =>
      chains.flatMap(({ turn, logprobs }) => [...logprobs].filter((_, i) => turn[i]! >= 0)),
    ),
  );

describe("score", () => {
  it("costs nothing where no reward asks for it", async () => {
    const { agent, seen } = watched();
    await train({ ...quickRun, agent, reward: plain, steps: 2 });
    await evaluate({ ...evaluation, agent, reward: plain });
    expect(seen).toEqual({ made: 0, open: 0, passes: 0 });
  });

  it("is one pass for a group, also where several parts ask, and lets go of its reference", async () => {
    const { agent, seen } = watched();
    const twice = rewardFunction({ name: "twice" }, async ({ turns }, { score }) => {
      const [a, b] = await Promise.all([score!(turns), score!(turns)]);
      expect(a).toBe(b);
      return a!.length;
    });
    await evaluate({ ...evaluation, agent, reward: twice });
    expect(seen).toEqual({ made: 1, open: 0, passes: 4 });
    await train({
      ...quickRun,
      agent,
      reward: twice,
      steps: 3,
      heldOut: [{ id: "held", userResponses: ["help card"] }],
    });
    expect(seen.open).toBe(0);
    expect(seen.made).toBe(2);
  });

  it("gives the log-probs of every sampled reply, by its turn", async () => {
    const { agent } = watched();
    const kept: TurnScore[][] = [];
    const { groups } = await evaluate({ ...evaluation, agent, reward: curious(kept) });
    // The untrained policy is its own reference, so that these are the log-probs it sampled with.
    const flat = kept.map((scores) => scores.flatMap(({ logprobs }) => [...logprobs]));
    const sampled = sampledLogprobs(groups);
    expect(flat.length).toBe(16);
    for (const [i, own] of flat.entries()) {
      expect(own).toHaveLength(sampled[i]!.length);
      for (const [t, value] of own.entries()) expect(value).toBeCloseTo(sampled[i]![t]!, 5);
    }
    expect(kept[0]!.map(({ turn }) => turn)).toEqual([1, 3, 5]);
  });

  it("is the model's as it was before training, whatever training has made of it since", async () => {
    const { agent } = watched();
    await train({ ...quickRun, agent, reward: plain, steps: 5 });
    const kept: TurnScore[][] = [];
    const { groups } = await evaluate({ ...evaluation, agent, reward: curious(kept) });
    const now = sampledLogprobs(groups).flat();
    const before = kept.flat().flatMap(({ logprobs }) => [...logprobs]);
    expect(before).toHaveLength(now.length);
    const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
    expect(mean(before)).toBeLessThan(mean(now) - 0.1);
  });

  it("changes nothing of what is learnt, and says the same every time", async () => {
    const run = async (reward: typeof plain) => {
      const { agent, policy } = tableAgent();
      const { run } = await train({ ...quickRun, agent, reward, steps: 4 });
      return { metrics: run.metrics, weights: Float32Array.from(policy.parameters) };
    };
    const [first, second]: TurnScore[][][] = [[], []];
    const asked = await run(curious(first));
    expect(asked).toEqual(await run(plain));
    await run(curious(second));
    expect(second).toEqual(first);
  });

  it("stops waiting with the run", async () => {
    const { agent, policy } = tableAgent();
    const { reference } = policy;
    policy.reference = async (of) => ({
      ...(await reference.call(policy, of)),
      version: "slow",
      logprobs: () => new Promise<Float32Array>(() => {}),
      close: async () => {},
    });
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 40);
    const stopped = evaluate({ ...evaluation, agent, reward: curious(), signal: stop.signal });
    await expect(stopped).rejects.toMatchObject({ code: "ABORTED" });
  });

  it("scores other turns, too, as the chat template prints them", async () => {
    const { agent } = watched();
    const other = rewardFunction({ name: "other" }, async (_, { score }) => {
      const turns = [
        { role: "user" as const, content: "refund order" },
        { role: "assistant" as const, content: "please thanks" },
      ];
      const [one, ...rest] = await score!(turns);
      expect(rest).toEqual([]);
      return one!.turn + one!.logprobs.length / 100;
    });
    // Two words and the end of the turn.
    expect((await evaluate({ ...evaluation, agent, reward: other })).reward.mean).toBeCloseTo(1.03);
  });

  it("is said once to be of no use where the model knows no language", async () => {
    const { agent } = tableAgent();
    const { run } = await train({ ...quickRun, agent, reward: new PolitenessReward(), steps: 3 });
    expect(run.warnings.filter(({ kind }) => kind === "reward-unguarded")).toHaveLength(1);
    expect(run.warnings[0]!.message).toContain("does not tell plain sentences from their words shuffled");
  });

  it("is missed once by a heuristic that has none", async () => {
    const warnings: string[] = [];
    const listen = ({ name, message }: Error) => name === "RewardWarning" && warnings.push(message);
    process.on("warning", listen);
    const turns = [{ role: "assistant" as const, content: "Thank you. It ships today." }];
    for (let n = 0; n < 3; n++) await new PolitenessReward().compute({ turns });
    await new Promise((done) => setTimeout(done, 10));
    process.off("warning", listen);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('Reward "politeness" is a heuristic');
  });
});
