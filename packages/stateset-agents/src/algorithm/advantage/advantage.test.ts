import { describe, expect, it } from "vitest";
import type { Sequence } from "../algorithm.ts";
import { algorithmDefaults } from "../algorithms.ts";
import { type GaeOptions, gae, gaeAdvantages } from "./gae.ts";
import { groupAdvantages } from "./group.ts";
import { adaptiveLambda, lengthAdaptiveAdvantages } from "./length-adaptive-gae.ts";
import { multiRewardAdvantages } from "./multi-reward.ts";
import { tokenRewards, turnAdvantages } from "./turn-credit.ts";

function sequence(turn: number[], changes: Partial<Sequence> = {}): Sequence {
  return {
    group: 0,
    old: new Float32Array(turn.length).fill(-1),
    turn: Int32Array.from(turn),
    oldValues: Float32Array.from(turn, (_, t) => 0.1 * (t + 1)),
    reward: 1,
    breakdown: {},
    turnRewards: {},
    truncated: false,
    ...changes,
  };
}

describe("GAE over turns", () => {
  it("by default gives the first reply all of a reward that is paid at the end, whatever the critic knows", () => {
    const turn = [1, 3, 5].flatMap((reply) => new Array<number>(20).fill(reply));
    for (const algorithm of ["ppo", "a2c"] as const) {
      const { lambda, gamma } = algorithmDefaults(algorithm) as Required<GaeOptions>;
      const [result] = gaeAdvantages([sequence(turn, { oldValues: new Float32Array(60) })], { lambda, gamma });
      // At λ 0.95 it was 0.95⁵⁹: one twentieth.
      expect(result!.advantages[0], algorithm).toBe(1);
    }
  });

  it("bootstraps a reply from the first token of the next reply", () => {
    // Two replies of two tokens; λ = 0, so that A_t = r_t + γ·V_{t+1} − V_t.
    const own = sequence([1, 1, 3, 3], { oldValues: Float32Array.of(1, 2, 4, 8), reward: 16 });
    const [result] = gaeAdvantages([own], { gamma: 1, lambda: 0 });
    expect([...result!.advantages]).toEqual([2 - 1, 4 - 2, 8 - 4, 16 - 8]);
    expect([...result!.returns!]).toEqual([2, 4, 8, 16]);
  });

  it("with λ = 1 and γ = 1 every token's target is the reward that is still to come", () => {
    const [result] = gaeAdvantages([sequence([1, 1, 3], { turnRewards: { 1: 0.5 } })], { gamma: 1, lambda: 1 });
    for (const [t, target] of [1.5, 1.5, 1].entries()) expect(result!.returns![t]).toBeCloseTo(target, 6);
  });

  it("leaks nothing back: a turn's reward does not reach later replies", () => {
    const plain = gaeAdvantages([sequence([1, 1, 3, 3])]);
    const paid = gaeAdvantages([sequence([1, 1, 3, 3], { turnRewards: { 1: 5 } })]);
    expect([...paid[0]!.advantages.slice(2)]).toEqual([...plain[0]!.advantages.slice(2)]);
    expect(paid[0]!.advantages[0]).toBeGreaterThan(plain[0]!.advantages[0]!);
  });

  it("does not mix conversations: each one's advantages are those it has alone", () => {
    const both = [sequence([1, 1, 3]), sequence([1, 3, 3, 5], { reward: -2 })];
    const together = gaeAdvantages(both);
    for (const [i, one] of both.entries()) expect(gaeAdvantages([one])[0]).toEqual(together[i]);
  });

  it("at turn level treats a reply as one step", () => {
    const own = sequence([1, 1, 3], { oldValues: Float32Array.of(1, 99, 2), turnRewards: { 1: 0.25 } });
    const [result] = gaeAdvantages([own], { level: "turn", gamma: 0.5, lambda: 0 });
    expect([...result!.advantages]).toEqual([0.25 + 0.5 * 2 - 1, 0.25 + 0.5 * 2 - 1, 1 - 2]);
  });

  it("asks for values by name when there are none", () => {
    const { oldValues: _, ...without } = sequence([1]);
    expect(() => gaeAdvantages([without])).toThrow(/oldValues/);
  });
});

describe("length-adaptive GAE", () => {
  it("has λ = 1 − 1/(α·l), never below its floor and always below 1", () => {
    expect(adaptiveLambda(100, 0.05, 0)).toBeCloseTo(0.8, 12);
    expect(adaptiveLambda(100, 0.05, 0.99)).toBe(0.99);
    expect(adaptiveLambda(5, 0.05, 0)).toBe(0);
    expect(adaptiveLambda(1e18, 1, 0)).toBeLessThan(1);
  });

  it("lets the first token of a short conversation see the reward at its end", () => {
    // Twelve tokens: without a floor λ would be 0, and with a critic at zero only the last token would have an advantage.
    const short = sequence(new Array<number>(12).fill(1), { oldValues: new Float32Array(12) });
    const [result] = lengthAdaptiveAdvantages([short]);
    expect(result!.advantages[0]).toBeCloseTo(0.999 ** 11, 6);
  });

  it("targets Monte-Carlo returns whatever the values are", () => {
    const [result] = lengthAdaptiveAdvantages([sequence([1, 1, 1], { turnRewards: { 1: 1 } })], {
      gamma: 0.5,
      floor: 0,
    });
    expect([...result!.returns!]).toEqual([0.5, 1, 2]);
    expect([...result!.advantages]).toEqual([
      ...Float32Array.from(gae([0, 0, 2], Float32Array.of(0.1, 0.2, 0.3), 0.5, 0)),
    ]);
  });
});

describe("per-turn credit", () => {
  it("puts a turn's reward on its last token and the episode's on the last of all", () => {
    expect([...tokenRewards(sequence([1, 1, 3, 3], { turnRewards: { 1: 2, 3: 4 } }))]).toEqual([0, 2, 0, 5]);
  });

  it("does not count turns twice that the episode's reward holds already", () => {
    const two = sequence([1, 1, 3, 3], { reward: 3, turnRewards: { 1: 2, 3: 1 }, turnsInReward: true });
    expect([...tokenRewards(two)]).toEqual([0, 2, 0, 1]);
    // What is taken off the whole or added to it (a KL penalty, shaping) falls on the end.
    expect([...tokenRewards(two, 2.5)]).toEqual([0, 2, 0, 0.5]);
    const [better, worse] = turnAdvantages([two, { ...two, reward: 1, turnRewards: { 1: 0, 3: 1 } }], {
      scale: "none",
    });
    // The second replies earned the same; only the first ones differ.
    expect([better!.advantages[0], worse!.advantages[0]]).toEqual([1, -1]);
    expect([better!.advantages.at(-1), worse!.advantages.at(-1)]).toEqual([0, 0]);
  });

  it("credits a reward on a turn the policy did not write to the reply before it", () => {
    expect([...tokenRewards(sequence([1, 1, 3], { turnRewards: { 2: 7 }, reward: 0 }))]).toEqual([0, 7, 0]);
    expect([...tokenRewards(sequence([1, 3], { turnRewards: { 0: 7 }, reward: 0 }))]).toEqual([7, 0]);
  });

  it("compares each reply with the same reply of the others", () => {
    const good = sequence([1, 3, 5], { turnRewards: { 1: 1 }, reward: 0 });
    const bad = sequence([1, 3], { turnRewards: {}, reward: 0 });
    const result = turnAdvantages([good, bad], { scale: "none" });
    expect(result.map((own) => [...own.advantages])).toEqual([
      [0.5, 0, 0],
      [-0.5, 0],
    ]);
  });

  it("compares a reply that no other member reached with what the others still had to come at their end", () => {
    // Going on to a third reply earned 3; the others were over by then, with an episode's reward of 0 to come.
    const went = sequence([1, 3, 5], { turnRewards: { 5: 3 }, reward: 0 });
    const others = [sequence([1], { reward: 0 }), sequence([1, 3], { reward: 0 })];
    const [alone] = turnAdvantages([went, ...others], { scale: "none" });
    expect([...alone!.advantages]).toEqual([2, 1.5, 2]);
    // A group of one has nobody to be compared with.
    expect([...turnAdvantages([went])[0]!.advantages]).toEqual([0, 0, 0]);
  });

  it("without rewards on turns gives a lone reply the advantage of its conversation", () => {
    const batch = [sequence([1, 3, 5], { reward: 1 }), sequence([1], { reward: 0 }), sequence([1], { reward: 0.5 })];
    expect(turnAdvantages(batch)).toEqual(groupAdvantages(batch));
  });
});

describe("group-relative", () => {
  const batch = [3, 1, 10, 30].map((reward, i) => sequence([1], { group: i >> 1, reward }));
  it("compares within the group only", () => {
    expect(groupAdvantages(batch, { scale: "none" }).map((own) => own.advantages[0])).toEqual([1, -1, -10, 10]);
  });

  it("gives a group of one nothing", () => {
    expect(groupAdvantages([batch[0]!])[0]!.advantages[0]).toBe(0);
  });
});

describe("multi-reward", () => {
  it("lets no part drown another by its scale", () => {
    const parts = [
      { correct: 1, length: 0 },
      { correct: 0, length: 1000 },
    ];
    const batch = parts.map((breakdown) => sequence([1], { breakdown }));
    const [first, second] = multiRewardAdvantages(batch, { weights: { correct: 2, length: 1 } });
    expect(first!.advantages[0]).toBeGreaterThan(0.5);
    expect(second!.advantages[0]).toBeCloseTo(-first!.advantages[0]!, 6);
  });

  it("counts what shaping took off, compared within the group", () => {
    const batch = [0, -1, -1, -1].map((shaping, i) =>
      sequence([1], { group: i >> 1, breakdown: { correct: 1 }, shaping, reward: 1 + shaping }),
    );
    const advantages = multiRewardAdvantages(batch, { weights: { correct: 1 } }).map((own) => own.advantages[0]!);
    expect(advantages[0]).toBeGreaterThan(0.5);
    expect(advantages[1]).toBe(-advantages[0]!);
    expect(advantages.slice(2)).toEqual([0, 0]);
  });

  it("names a part that the reward does not have", () => {
    const batch = [sequence([1], { breakdown: { correct: 1 } })];
    expect(() => multiRewardAdvantages(batch, { weights: { corect: 1 } })).toThrow(
      /"corect".*Did you mean "correct"\?/,
    );
  });
});
