import { describe, expect, it } from "vitest";
import { withGroupTokens } from "../advantage/batch.ts";
import { createAlgorithm } from "../algorithms.ts";
import { adaptKl } from "../kl.ts";
import { meanMetrics, mergeMetrics } from "../metrics.ts";
import { overlongPenalty } from "../overlong.ts";
import { countsOf, randomLossSequences, randomSequences } from "../random-batch.ts";
import { bnpoLoss } from "./bnpo.ts";
import { calibration } from "./bradley-terry.ts";
import { dapoLoss } from "./dapo.ts";
import { gepoLoss } from "./gepo.ts";
import { gmpoLoss } from "./gmpo.ts";
import { grpoLoss } from "./grpo.ts";
import { gspoLoss } from "./gspo.ts";
import { gspoTokenLoss } from "./gspo-token.ts";
import { luspoLoss } from "./luspo.ts";
import { sapoLoss } from "./sapo.ts";
import { surrogate } from "./surrogate.ts";

const clip = { epsilonLow: 0.2, epsilonHigh: 0.28 };

describe("the surrogate", () => {
  it("stops the gradient at the bound that the advantage pushes towards, and only there", () => {
    const slope = (ratio: number, advantage: number, dualClip?: number) =>
      surrogate(Math.log(ratio), advantage, { ...clip, dualClip }).slope;
    expect(slope(1.3, 1)).toBe(0);
    expect(slope(1.27, 1)).toBeCloseTo(-1.27, 12);
    expect(slope(0.5, 1)).toBeCloseTo(-0.5, 12);
    expect(slope(0.79, -1)).toBe(0);
    expect(slope(4, -1)).toBeCloseTo(4, 12);
    expect(slope(4, -1, 3)).toBe(0);
    expect(surrogate(Math.log(4), -2, { ...clip, dualClip: 3 }).loss).toBeCloseTo(6, 12);
  });

  it("is finite for any log-ratio", () => {
    for (const logRatio of [-1e6, 1e6, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])
      expect(Number.isFinite(surrogate(logRatio, -1).loss)).toBe(true);
  });
});

describe("relations between losses", () => {
  it("GSPO-token is GSPO when a sequence's advantages are all the same", () => {
    const micro = randomLossSequences({ seed: 2 }).map((own, i) => ({
      ...own,
      advantages: own.advantages.map(() => (i % 2 ? 1 : -1)),
    }));
    const [a, b] = [gspoLoss(clip)(micro, countsOf(micro)), gspoTokenLoss(clip)(micro, countsOf(micro))];
    expect(a.loss).toBeCloseTo(b.loss, 12);
    for (const [i, own] of a.dLogprobs.entries())
      for (const [t, d] of own.entries()) expect(d).toBeCloseTo(b.dLogprobs[i]![t]!, 7);
  });

  it("BNPO is the token mean when the batch is one group", () => {
    const micro = randomLossSequences({ seed: 3, groups: 1 });
    const withTokens = withGroupTokens(micro, micro).map((context, i) => ({ ...micro[i]!, ...context }));
    const [a, b] = [bnpoLoss(clip)(withTokens, countsOf(micro)), dapoLoss(clip)(micro, countsOf(micro))];
    expect(a.loss).toBeCloseTo(b.loss, 12);
  });

  it("LUSPO is GSPO times the length of the sequence, KL and entropy included", () => {
    const micro = randomLossSequences({ seed: 4 });
    const counts = countsOf(micro);
    const options = { ...clip, beta: 0.1, entropyCoefficient: 0.05 };
    for (const own of micro) {
      const [a, b] = [luspoLoss(options)([own], counts), gspoLoss(options)([own], counts)];
      const length = own.old.length;
      expect(a.loss).toBeCloseTo(length * b.loss, 12);
      for (const [t, d] of a.dLogprobs[0]!.entries()) expect(d).toBeCloseTo(length * b.dLogprobs[0]![t]!, 6);
    }
  });

  it("GMPO is GSPO until a token is at its bound; then that token alone loses its gradient", () => {
    const wide = { epsilonLow: 1e6, epsilonHigh: 1e6 };
    const open = { epsilonLow: 0.999999, epsilonHigh: 1e6 };
    const micro = randomLossSequences({ seed: 5 });
    const [a, b] = [gmpoLoss(wide)(micro, countsOf(micro)), gspoLoss(open)(micro, countsOf(micro))];
    expect(a.loss).toBeCloseTo(b.loss, 12);
    const one = { ...micro[0]!, old: Float32Array.of(-1, -1, -1), logprobs: Float32Array.of(-0.5, -0.9, -2) };
    const pushed = (advantage: number) => {
      const sequence = { ...one, advantages: Float32Array.of(advantage, advantage, advantage) };
      return [...gmpoLoss({ epsilonLow: 0.4, epsilonHigh: 0.4 })([sequence], countsOf([sequence])).dLogprobs[0]!];
    };
    expect(pushed(1).map((d) => d !== 0)).toEqual([false, true, true]);
    expect(pushed(-1).map((d) => d !== 0)).toEqual([true, true, false]);
  });

  it("SAPO has the unclipped gradient on policy, whatever its temperatures, and lets go of tokens far from it by degrees", () => {
    const micro = randomLossSequences({ seed: 6 }).map((own) => ({ ...own, logprobs: own.old }));
    const grpo = grpoLoss(clip)(micro, countsOf(micro));
    for (const tau of [0.5, 1, 7]) {
      const sapo = sapoLoss({ tauPositive: tau, tauNegative: 1.05 * tau })(micro, countsOf(micro));
      for (const [i, own] of sapo.dLogprobs.entries())
        for (const [t, d] of own.entries()) expect(d).toBeCloseTo(grpo.dLogprobs[i]![t]!, 7);
    }
    const slope = (ratio: number, advantage: number) => {
      const own = { ...micro[0]!, old: Float32Array.of(-2), logprobs: Float32Array.of(-2 + Math.log(ratio)) };
      const sequence = { ...own, advantages: Float32Array.of(advantage) };
      const { dLogprobs } = sapoLoss({ tauPositive: 1, tauNegative: 1.05 })([sequence], countsOf([sequence]));
      return Math.abs(dLogprobs[0]![0]!) / ratio;
    };
    for (const advantage of [1, -1]) {
      const weights = [1, 1.5, 2, 4, 8].map((ratio) => slope(ratio, advantage));
      expect(weights).toEqual([...weights].sort((x, y) => y - x));
      expect(weights.at(-1)).toBeLessThan(0.01);
      expect(weights.at(-1)).toBeGreaterThan(0);
    }
    expect(slope(4, -1)).toBeLessThan(slope(4, 1));
  });

  it("GEPO says what is missing when the loop dropped the context", () => {
    const micro = randomLossSequences();
    expect(() => gepoLoss(clip)(micro, countsOf(micro))).toThrow(/context\.logExpectation.*Spread the whole result/);
  });
});

describe("DAPO", () => {
  const dapo = createAlgorithm("dapo");
  const group = (...rewards: number[]) => rewards.map((reward) => ({ ...randomSequences()[0]!, reward }));

  it("keeps a group only when its rewards differ", () => {
    expect(dapo.keepGroup!(group(1, 1, 1))).toBe(false);
    expect(dapo.keepGroup!(group(0, 0))).toBe(false);
    expect(dapo.keepGroup!(group(0, 1, 1))).toBe(true);
    expect(createAlgorithm({ algorithm: "dapo", dynamicSampling: false }).keepGroup).toBe(undefined);
  });

  it("keeps a group of equal rewards where turns or parts of the reward tell its members apart", () => {
    const equal = group(1, 1).map((sequence, i) => ({
      ...sequence,
      turnRewards: { 1: i },
      turnsInReward: true,
      breakdown: { correct: 1, style: i },
    }));
    const keeps = (options: object, own = equal) => createAlgorithm({ algorithm: "dapo", ...options }).keepGroup!(own);
    expect(keeps({})).toBe(false);
    const [first, second] = [Int32Array.of(1, 3), Int32Array.of(1, 3)];
    const played = equal.map((own, i) => ({ ...own, old: Float32Array.of(-1, -1), turn: i ? first : second }));
    expect(keeps({ credit: "turn" }, played)).toBe(true);
    expect(keeps({ rewardWeights: { style: 1 } })).toBe(true);
    // And the other way round: rewards differ by a part that has no weight.
    const other = equal.map((own, i) => ({ ...own, reward: i }));
    expect(keeps({ rewardWeights: { correct: 1 } }, other)).toBe(false);
  });

  it("shapes the reward of long replies: 0 up to L−C, then down to −1 at L", () => {
    const reply = (...lengths: number[]) => ({
      ...randomSequences()[0]!,
      turn: Int32Array.from(lengths.flatMap((n, k) => new Array<number>(n).fill(2 * k + 1))),
    });
    expect([80, 81, 90, 100, 120].map((n) => overlongPenalty(reply(n), 100, 0.2))).toEqual([0, -0.05, -0.5, -1, -1]);
    // Two replies of 60 tokens are no overlong reply.
    expect(overlongPenalty(reply(60, 60), 100, 0.2)).toBe(0);
    expect(dapo.shapeReward!({ ...reply(100), reward: 1 }, 100)).toBe(0);
  });
});

describe("adaptive KL", () => {
  it("raises β above the target, lowers it below, by at most 20% · n / horizon", () => {
    expect(adaptKl(0.1, 10, { target: 1, horizon: 100, sequences: 50 })).toBeCloseTo(0.1 * 1.1, 12);
    expect(adaptKl(0.1, 0, { target: 1, horizon: 100, sequences: 50 })).toBeCloseTo(0.1 * 0.9, 12);
    expect(adaptKl(0.1, 1.1, { target: 1, horizon: 100, sequences: 100 })).toBeCloseTo(0.1 * 1.1, 12);
    // More sequences than the horizon has: no further than the horizon itself allows.
    expect(adaptKl(0.1, 0, { target: 1, horizon: 5, sequences: 32 })).toBeCloseTo(0.1 * 0.8, 12);
    expect(adaptKl(0.1, 10, { target: 1, horizon: 5, sequences: 32 })).toBeCloseTo(0.1 * 1.2, 12);
  });

  it("is kept in a checkpoint", () => {
    const create = () => createAlgorithm({ algorithm: "ppo", beta: 0.05, targetKl: 0.01, klHorizon: 10 });
    const sequences = randomLossSequences();
    const run = create();
    run.loss(sequences, countsOf(sequences));
    run.afterUpdate!({ kl: 1 });
    expect(run.state!().beta).toBeGreaterThan(0.05);
    const resumed = create();
    resumed.restore!(run.state!());
    expect(resumed.advantages(sequences)).toEqual(run.advantages(sequences));
    expect(create().advantages(sequences)).not.toEqual(run.advantages(sequences));
  });
});

describe("metrics", () => {
  it("add sums, compare maxima and derive the explained variance", () => {
    const total = mergeMetrics(
      { a: { sum: 1, count: 2 }, top: { sum: 3, count: 1, max: 3 } },
      { a: { sum: 5, count: 1 }, top: { sum: 2, count: 1, max: 2 }, b: { sum: 4, count: 4 } },
    );
    expect(meanMetrics(total)).toEqual({ a: 2, top: 3, b: 1 });
    const values = { valueError: { sum: 0, count: 2 }, valueErrorSquared: { sum: 0.5, count: 2 } };
    const returns = { return: { sum: 0, count: 2 }, returnSquared: { sum: 2, count: 2 } };
    expect(meanMetrics({ ...values, ...returns })).toEqual({ valueError: 0, return: 0, explainedVariance: 0.75 });
  });
});

describe("calibration", () => {
  it("is 0 when a model is right as often as it says, and grows with false confidence", () => {
    const gap = Math.log(2); // says two out of three
    const pairs = [1, 1, -1].map((sign) => ({ chosen: sign * gap, rejected: 0 }));
    expect(calibration(pairs).expectedError).toBeCloseTo(0, 12);
    const sure = [1, -1].map((sign) => ({ chosen: sign * 50, rejected: 0 }));
    expect(calibration(sure).expectedError).toBeCloseTo(0.5, 12);
    expect(calibration(sure).brier).toBeCloseTo(0.5, 12);
  });
});
