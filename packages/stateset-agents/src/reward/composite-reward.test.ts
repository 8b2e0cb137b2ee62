import { describe, expect, it } from "vitest";
import { type CompositeOptions, CompositeReward } from "./composite-reward.ts";
import { type RewardFn, rewardFunction } from "./define-reward.ts";
import { type MultiObjectiveOptions, MultiObjectiveReward } from "./multi-objective-reward.ts";
import type { RewardOptions } from "./reward-function.ts";

const input = { turns: [] };
const fourTurns = { turns: Array.from({ length: 4 }, () => ({ role: "assistant" as const, content: "" })) };
const fixed = (name: string, score: number, weight = 1) => rewardFunction({ name, weight }, () => score);
const broken = (weight = 1) =>
  rewardFunction({ name: "broken", weight }, () => {
    throw new Error("judge is down");
  });

describe("rewardFunction", () => {
  it("makes a reward of a number or of a result, sync or async", async () => {
    expect(await fixed("a", 0.5).compute(input)).toEqual({ score: 0.5, breakdown: { a: 0.5 } });
    const whole = rewardFunction({ weight: 2 }, async function polite() {
      return { score: 1, breakdown: { thanks: 1 }, metadata: { seen: 3 } };
    });
    expect([whole.name, whole.weight]).toEqual(["polite", 2]);
    expect(await whole.compute(input)).toEqual({ score: 1, breakdown: { thanks: 1 }, metadata: { seen: 3 } });
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY, undefined, "1"])(
    "fails on %s instead of passing it on",
    async (value) => {
      const reward = rewardFunction({ name: "bad" }, (() => value) as RewardFn);
      await expect(reward.compute(input)).rejects.toMatchObject({ code: "REWARD_NOT_FINITE" });
    },
  );

  it("refuses a weight that is not a number", () => {
    expect(() => fixed("a", 1, Number.NaN)).toThrow("rewardFunction.weight");
    expect(() => rewardFunction({ wieght: 1 } as RewardOptions, () => 1)).toThrow('Did you mean "weight"?');
  });
});

describe("CompositeReward", () => {
  it("weighs its parts, and keeps their scores and details apart by name", async () => {
    const detailed = rewardFunction({ name: "b", weight: 1 }, () => ({ score: 0, breakdown: { b: 0, length: 7 } }));
    const reward = new CompositeReward([fixed("a", 1, 3), detailed, fixed("a", 0.5, 0)]);
    expect(await reward.compute(input)).toMatchObject({
      score: 0.75,
      breakdown: { a: 1, b: 0, "b.length": 7, "a 2": 0.5 },
    });
  });

  it("adds up plainly without normalisation, and punishes with negative weights", async () => {
    const sum = new CompositeReward([fixed("a", 1, 2), fixed("b", 1, 3)], { normalize: false });
    expect((await sum.compute(input)).score).toBe(5);
    const punishing = new CompositeReward([fixed("a", 1, 1), fixed("b", 1, -1)]);
    expect((await punishing.compute(input)).score).toBe(0);
  });

  it("fails as a whole by default, naming the part", async () => {
    const reward = new CompositeReward([fixed("a", 1), broken()]);
    await expect(reward.compute(input)).rejects.toThrow('The part "broken" of the reward failed: judge is down');
  });

  it("can leave a failing part out: the others share its weight, and the failure is told", async () => {
    const reward = new CompositeReward([fixed("a", 0.8, 1), broken(9)], { onFailure: "skip" });
    const result = await reward.compute(input);
    expect(result.score).toBeCloseTo(0.8);
    expect(result.breakdown).toEqual({ a: 0.8 });
    expect(result.metadata).toEqual({ failures: [{ name: "broken", message: "judge is down" }] });
  });

  it("can count a failing part as a given score, and tells it too", async () => {
    const reward = new CompositeReward([fixed("a", 1), broken()], { onFailure: { score: 0.5 } });
    expect(await reward.compute(input)).toMatchObject({
      score: 0.75,
      breakdown: { a: 1, broken: 0.5 },
      metadata: { failures: [{ name: "broken" }] },
    });
  });

  it("never makes up a score when every part failed", async () => {
    const reward = new CompositeReward([broken(), broken()], { onFailure: "skip" });
    await expect(reward.compute(input)).rejects.toThrow("Every part of the reward failed");
  });

  it("weighs rewards of single turns", async () => {
    const perTurn = rewardFunction({ name: "t", weight: 3 }, () => ({ score: 1, turns: { 1: 1, 3: 0.5 } }));
    const result = await new CompositeReward([perTurn, fixed("a", 1)]).compute(fourTurns);
    expect(result.turns).toEqual({ 1: 0.75, 3: 0.375 });
  });

  it("passes the context on to its parts", async () => {
    const signal = new AbortController().signal;
    let seen: unknown;
    const part = rewardFunction({ name: "p" }, (_, context) => {
      seen = context.signal;
      return 1;
    });
    await new CompositeReward([part]).compute(input, { signal });
    expect(seen).toBe(signal);
  });

  it("refuses to be empty or weightless, and misspelt options", () => {
    const misspelt = { onFailur: "skip" } as CompositeOptions;
    expect(() => new CompositeReward([fixed("a", 1)], misspelt)).toThrow('Did you mean "onFailure"?');
    expect(() => new CompositeReward([])).toThrow("no parts");
    expect(() => new CompositeReward([fixed("a", 1, 0)])).toThrow("add up to 0");
  });
});

describe("MultiObjectiveReward", () => {
  const objectives = [
    { name: "a", reward: fixed("x", 0.25), weight: 1 },
    { name: "b", reward: fixed("x", 1), weight: 3 },
  ];
  const score = async (options: Partial<MultiObjectiveOptions>) =>
    (await new MultiObjectiveReward({ objectives, ...options }).compute(input)).score;

  it("aggregates in every way it offers", async () => {
    expect(await score({})).toBeCloseTo(0.25 * 0.25 + 0.75);
    expect(await score({ aggregation: "weighted_sum" })).toBeCloseTo(0.8125);
    expect(await score({ aggregation: "min" })).toBe(0.25);
    expect(await score({ aggregation: "geometric" })).toBeCloseTo(0.25 ** 0.25);
    expect(await score({ aggregation: "product", normalize: false })).toBeCloseTo(0.25);
    expect(await score({ normalize: false })).toBeCloseTo(0.25 + 3);
  });

  it("brings scores into 0…1 by their range", async () => {
    const wide = [{ name: "a", reward: fixed("x", -5), range: [-10, 10] as const }];
    expect(await score({ objectives: wide })).toBe(0.25);
    expect(await score({ objectives: [{ name: "a", reward: fixed("x", 7) }] })).toBe(1);
  });

  it("keeps raw scores in the breakdown, by the objective's name", async () => {
    const { breakdown } = await new MultiObjectiveReward({ objectives }).compute(input);
    expect(breakdown).toMatchObject({ a: 0.25, b: 1 });
  });

  it("keeps rewards of single turns, weighed and scaled like the scores", async () => {
    const perTurn = (score: number, turns: Record<number, number>) =>
      rewardFunction({ name: "t" }, () => ({ score, turns }));
    const both = [
      { name: "a", reward: perTurn(0.2, { 1: 1, 3: 0.5 }), weight: 3 },
      { name: "b", reward: perTurn(5, { 3: 8 }), weight: 1, range: [0, 10] as const },
    ];
    const turns = async (options: Partial<MultiObjectiveOptions>) =>
      (await new MultiObjectiveReward({ objectives: both, ...options }).compute(fourTurns)).turns;
    expect(await turns({})).toEqual({ 1: 0.75, 3: 0.375 + 0.25 * 0.8 });
    expect(await turns({ aggregation: "geometric" })).toEqual(await turns({}));
    expect(await turns({ normalize: false })).toEqual({ 1: 3, 3: 1.5 + 8 });
    expect(await turns({ aggregation: "min" })).toEqual({ 1: 1, 3: 0.5 });
    expect(await turns({ objectives: [{ name: "a", reward: fixed("x", 1) }] })).toBeUndefined();
  });

  it("fails clearly on what it cannot aggregate or does not know", async () => {
    const negative = [{ name: "a", reward: fixed("x", -1) }];
    await expect(score({ objectives: negative, aggregation: "product", normalize: false })).rejects.toThrow(
      "turn normalize on",
    );
    expect(() => new MultiObjectiveReward({ objectives: [] })).toThrow("objectives");
    expect(() => new MultiObjectiveReward({ objectives, agregation: "min" } as MultiObjectiveOptions)).toThrow(
      '"aggregation"',
    );
    const skipping = [...objectives, { name: "c", reward: broken(), weight: 96 }];
    expect(await score({ objectives: skipping, onFailure: "skip" })).toBeCloseTo(0.8125);
  });
});
