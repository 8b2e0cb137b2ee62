/** What becomes of rewards before they are learnt from. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import type { Algorithm, Sequence } from "../algorithm/algorithm.ts";
import { createAlgorithm } from "../algorithm/algorithms.ts";
import { randomSequences } from "../algorithm/random-batch.ts";
import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import { harvestBestOfN } from "../supervised/best-of-n.ts";
import { FunctionReward, politeShare, quickRun, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import type { TrainingOptions } from "../training/config.ts";
import { train } from "../training/train.ts";
import { learnFrom } from "./learn-from.ts";
import type { Learner } from "./learner.ts";
import type { ChainSequence } from "./sequence.ts";
import { addRewards, noMoments, type RewardShaping, rewardShapingSchema, shapeRewards } from "./shape-rewards.ts";

const root = mkdtempSync(join(tmpdir(), "shaping-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const learnerOf = (shaping: Partial<RewardShaping>, algorithm: Algorithm = createAlgorithm("grpo")) =>
  ({ algorithm, settings: { rewardShaping: rewardShapingSchema.parse(shaping) } }) as unknown as Learner;

/** A conversation of one reply. */
const sequence = (reward: number, length: number, own: Partial<ChainSequence> = {}): ChainSequence => ({
  ...randomSequences()[0]!,
  chains: [],
  temperature: 1,
  turn: new Int32Array(length).fill(1),
  turnRewards: {},
  reward,
  ...own,
});

interface Case {
  options: Partial<RewardShaping>;
  replyTokens: number;
  steps: { rewards: number[]; lengths: number[]; shaped: number[] }[];
}
const file = fileURLToPath(new URL("../algorithm/fixtures/shaping.json", import.meta.url));
const cases = JSON.parse(readFileSync(file, "utf8")) as Case[];

describe("shapeRewards", () => {
  it(`equals numpy over the steps of a run: ${cases.length} cases`, () => {
    expect(cases.length).toBeGreaterThanOrEqual(20);
    for (const [n, { options, replyTokens, steps }] of cases.entries()) {
      const rewardMoments = noMoments();
      for (const { rewards, lengths, shaped } of steps) {
        const sequences = rewards.map((reward, i) => sequence(reward, lengths[i]!));
        shapeRewards(learnerOf(options), sequences, { replyTokens, rewardMoments });
        for (const [i, { reward }] of sequences.entries()) expect(reward, `case ${n}`).toBeCloseTo(shaped[i]!, 6);
      }
    }
  });

  it("keeps rewards of turns in proportion: what is left of the total falls on the end", () => {
    const turnRewards = { 1: 2 };
    const sequences = [sequence(4, 1, { turnRewards, turnsInReward: true }), sequence(0, 1)];
    shapeRewards(learnerOf({ normalise: "batch" }), sequences, { replyTokens: 10 });
    // μ = 2, σ = √8
    expect(sequences[0]!.reward).toBeCloseTo(2 / Math.sqrt(8), 6);
    expect(sequences[0]!.turnRewards[1]).toBeCloseTo(2 / Math.sqrt(8), 6);
    expect(turnRewards).toEqual({ 1: 2 });
  });

  it("does not count what is recalled twice", () => {
    const rewardMoments = noMoments();
    const sequences = [sequence(1, 1), sequence(3, 1), sequence(9, 1, { recalled: true })];
    shapeRewards(learnerOf({ normalise: "run" }), sequences, { replyTokens: 10, rewardMoments });
    expect(rewardMoments).toEqual({ count: 2, mean: 2, m2: 2 });
    expect(sequences[2]!.reward).toBeCloseTo(7 / Math.SQRT2, 6);
  });

  it("adds rewards one by one as well as together", () => {
    const [one, other] = [noMoments(), noMoments()];
    addRewards(one, [1, 2, 4]);
    for (const reward of [1, 2, 4]) addRewards(other, [reward]);
    expect(other).toEqual(one);
    expect(one).toMatchObject({ count: 3, mean: 7 / 3 });
  });

  it.each([{ normalise: "batch" }, { normalise: "run" }, { clipHigh: 0.4 }] as const)(
    "leaves VAPO's successes what they were (%j)",
    (shaping) => {
      const vapo = createAlgorithm("vapo");
      const oldValues = new Float32Array(4);
      const sequences = [1, 1, 1, 0].map((reward) =>
        sequence(reward, 4, { old: new Float32Array(4).fill(-1), oldValues }),
      );
      shapeRewards(learnerOf(shaping, vapo), sequences, { replyTokens: 10 });
      // Normalised, a success counts 0.49999999, and clipped 0.4: below the threshold of 0.5.
      for (const { reward } of sequences) expect(reward).toBeLessThan(0.5);
      const scales = vapo.advantages(sequences).map(({ context }) => context!.positiveScale);
      expect(scales).toEqual([4 / 3, 4 / 3, 4 / 3, 0]);
    },
  );

  it("changes no bit where nothing is asked for", () => {
    const sequences = [sequence(0.1 + 0.2, 10), sequence(-1 / 3, 10)];
    shapeRewards(learnerOf({}), sequences, { replyTokens: 10 });
    expect(sequences.map(({ reward }) => reward)).toEqual([0.1 + 0.2, -1 / 3]);
    expect(sequences[0]!.shaping).toBe(undefined);
  });
});

describe("in a run", () => {
  const reward = new FunctionReward((turns) => 10 * politeShare(turns));
  const run = async (options: TrainingOptions, place: object = { dir: false }) => {
    const { agent, policy } = tableAgent({ spread: 1 });
    const given = {
      ...quickRun,
      agent,
      reward,
      algorithm: "reinforce",
      baseline: "none",
      ...options,
      ...place,
    } as const;
    return { ...(await train(given)).run, parameters: policy.parameters };
  };

  it("metrics show the reward as it was given, and what was learnt from beside it", async () => {
    const clipped = await run({ steps: 3, rewardShaping: { clipHigh: 1 } });
    const plain = await run({ steps: 3 });
    // The first step samples from the same weights.
    expect(clipped.metrics[0]!.reward).toBe(plain.metrics[0]!.reward);
    expect(clipped.metrics[0]!.reward).toBeGreaterThan(1);
    expect(clipped.metrics[0]!.shapedReward).toBeLessThanOrEqual(1);
    expect(plain.metrics[0]!.shapedReward).toBe(undefined);
    expect(clipped.parameters).not.toEqual(plain.parameters);
    const batch = await run({ steps: 3, rewardShaping: { normalise: "batch" } });
    for (const { shapedReward } of batch.metrics) expect(shapedReward).toBeCloseTo(0, 9);
  });

  it('"run" goes on from a checkpoint to the same bits', async () => {
    const settings = {
      rewardShaping: { normalise: "run" },
      checkpoint: { every: 1 },
    } as const;
    const whole = await run(settings, { dir: join(root, "whole"), name: "run" });
    const stop = new AbortController();
    const onStepEnd = ({ step }: { step: number }) => void (step === 4 && stop.abort());
    const dir = join(root, "stopped");
    await run(settings, { dir, name: "run", callbacks: { onStepEnd }, signal: stop.signal });
    const resumed = await run({}, { resumeFrom: dir, dir: undefined });
    expect(resumed.parameters).toEqual(whole.parameters);
    expect(resumed.metrics).toEqual(whole.metrics);
    // The mean is of the whole run: were it forgotten at the stop, step 5 would have a mean of 0.
    expect(Math.abs(whole.metrics[4]!.shapedReward!)).toBeGreaterThan(1e-3);
  });

  it("normalising in the batch lets REINFORCE without a baseline learn from rewards that are all high", async () => {
    const high = new FunctionReward((turns) => 100 + politeShare(turns));
    const learn = async (normalise: "none" | "batch") => {
      const { agent } = tableAgent({ spread: 1 });
      const { run } = await train({
        ...quickRun,
        agent,
        reward: high,
        algorithm: "reinforce",
        baseline: "none",
        learningRate: 0.1,
        steps: 20,
        rewardShaping: { normalise },
      });
      const rewards = run.metrics.map((one) => one.reward!);
      return rewards.at(-1)! - rewards[0]!;
    };
    expect(await learn("batch")).toBeGreaterThan((await learn("none")) + 0.1);
  });

  it.each(["grpo", "ppo", "rloo"] as const)(
    "the length penalty counts with %s, and replies become shorter",
    async (algorithm) => {
      const { agent } = tableAgent({ spread: 0.1 });
      const equal = new FunctionReward(() => 1);
      const { run } = await train({
        ...quickRun,
        agent,
        reward: equal,
        algorithm,
        steps: 12,
        rewardShaping: { overlongPenalty: 1, overlongBuffer: 0.5 },
      });
      const [first, last] = [run.metrics[0]!, run.metrics.at(-1)!];
      expect(first.reward).toBe(1);
      expect(first.shapedReward).toBeLessThan(1);
      expect(last.replyTokens).toBeLessThan(first.replyTokens! - 0.3);
    },
  );
});

describe("refusals", () => {
  const tried = (options: object) => {
    const { agent } = tableAgent();
    return train({ ...quickRun, agent, reward: new FunctionReward(politeShare), steps: 1, ...options });
  };
  it.each([
    [{ algorithm: "dapo", rewardShaping: { overlongPenalty: 1 } }, /dapo shapes rewards itself/],
    [
      { algorithm: "grpo", rewardWeights: { function: 1 }, rewardShaping: { normalise: "run" } },
      /the total is not read/,
    ],
    [{ rewardShaping: { clipLow: 1, clipHigh: 0 } }, /clipLow/],
    [{ rewardShaping: { normalize: "run" } }, /normalize/],
  ])("%j", async (options, message) => {
    await expect(tried(options)).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringMatching(message),
    });
  });

  it("an overlong penalty on top of a shapeReward() of one's own, whatever that does", async () => {
    const shapeReward = ({ reward }: Sequence) => reward / 2;
    const algorithm: Algorithm = { ...createAlgorithm("grpo"), name: "mine", shapeReward };
    await expect(tried({ algorithm, rewardShaping: { overlongPenalty: 1 } })).rejects.toThrow(
      /mine shapes rewards itself \(shapeReward\)/,
    );
  });

  it("of learnFrom(): moments of a run, and a length penalty without a limit", async () => {
    const { agent, policy } = tableAgent();
    const reward = new FunctionReward(politeShare);
    const { groups } = await harvestBestOfN({ agent, environment: tableEnvironment(), reward, aboveMean: false });
    const step = (rewardShaping: Partial<RewardShaping>, from: readonly TrajectoryGroup[] = groups) =>
      learnFrom(policy, from, { rewardShaping });
    await expect(step({ normalise: "run" })).rejects.toThrow(/learnFrom\(\) is one step/);
    await expect(step({ overlongPenalty: 1 })).rejects.toThrow(/needs replyTokens/);
    expect((await step({ normalise: "batch" })).metrics.shapedReward).toBeCloseTo(0, 9);
  });
});
