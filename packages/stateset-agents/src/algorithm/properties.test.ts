/** What must hold for every algorithm, whatever its formula. */
import { describe, expect, it } from "vitest";
import type { Algorithm, LossSequence, MetricSums, Sequence } from "./algorithm.ts";
import { type AlgorithmConfig, algorithmNames, createAlgorithm } from "./algorithms.ts";
import { checkGradient } from "./check-gradient.ts";
import { meanMetrics, mergeMetrics } from "./metrics.ts";
import { countsOf, randomSequences, withPolicy } from "./random-batch.ts";

/** Each algorithm as it comes, and with every extra term switched on. */
const configs: AlgorithmConfig[] = [
  ...algorithmNames.map((algorithm) => ({ algorithm }) as AlgorithmConfig),
  { algorithm: "grpo", beta: 0.1, klEstimator: "k1", dualClip: 1.3, entropyCoefficient: 0.02, scale: "batch" },
  { algorithm: "dr-grpo", beta: 0.1, klEstimator: "k2", credit: "turn" },
  { algorithm: "bnpo", rewardWeights: { correct: 1, style: 0.5 }, entropyCoefficient: 0.02 },
  { algorithm: "bnpo", credit: "state", stateWeight: 0.5, stateDiscount: 1, beta: 0.1 },
  { algorithm: "gspo", beta: 0.2, epsilonLow: 0.1, epsilonHigh: 0.1 },
  { algorithm: "gspo-token", credit: "turn", beta: 0.2, epsilonLow: 0.1, epsilonHigh: 0.1 },
  { algorithm: "gepo", beta: 0.2, entropyCoefficient: 0.1 },
  { algorithm: "cispo", ratioCap: 1.1, beta: 0.1 },
  { algorithm: "sapo", tauPositive: 2, tauNegative: 5, credit: "turn", beta: 0.1 },
  { algorithm: "gmpo", epsilonLow: 0.1, epsilonHigh: 0.2, beta: 0.2, entropyCoefficient: 0.1 },
  { algorithm: "luspo", epsilonLow: 0.1, epsilonHigh: 0.1, beta: 0.2, entropyCoefficient: 0.1 },
  { algorithm: "ppo", klIn: "loss", entropyCoefficient: 0.02, level: "turn" },
  { algorithm: "ppo", valueClip: null, dualClip: 2, bootstrap: true },
  { algorithm: "vapo", beta: 0.1, positiveCoefficient: 1 },
  { algorithm: "a2c", nSteps: 2 },
  { algorithm: "rloo", epsilonLow: 0.2, epsilonHigh: 0.2, beta: 0.1, klIn: "loss" },
  { algorithm: "reinforce", baseline: "none", beta: 0.1, klIn: "loss", entropyCoefficient: 0.02 },
  { algorithm: "reinforce++", baseline: "group", gamma: 0.9 },
];
const named = configs.map((config) => [JSON.stringify(config), createAlgorithm(config)] as const);

function score(algorithm: Algorithm, sequences: readonly Sequence[], drift = 0.4): LossSequence[] {
  const advantages = algorithm.advantages(sequences);
  return withPolicy(
    sequences.map((sequence, i) => ({ ...sequence, ...advantages[i]! })),
    { drift },
  );
}

describe.each(named)("%s", (_, algorithm) => {
  it("has the derivatives its value says (finite differences)", () => {
    const check = checkGradient(algorithm, { tolerance: 1e-6, batches: 2 });
    expect(check, JSON.stringify(check.worst)).toMatchObject({ ok: true });
    expect(check.skipped).toBeLessThan(check.checked / 10);
  });

  it("adds up over micro-batches, also when they split groups", () => {
    const sequences = randomSequences({ seed: 5 });
    const counts = countsOf(sequences, 40);
    const micro = score(algorithm, sequences);
    const whole = algorithm.loss(micro, counts);
    for (const size of [1, 3, 5]) {
      let loss = 0;
      const dLogprobs: Float32Array[] = [];
      const metrics: MetricSums = {};
      for (let from = 0; from < micro.length; from += size) {
        const part = algorithm.loss(micro.slice(from, from + size), counts);
        loss += part.loss;
        dLogprobs.push(...part.dLogprobs);
        mergeMetrics(metrics, part.metrics);
      }
      expect(loss).toBeCloseTo(whole.loss, 12);
      expect(dLogprobs).toEqual(whole.dLogprobs);
      const [merged, direct] = [meanMetrics(metrics), meanMetrics(whole.metrics)];
      expect(Object.keys(merged)).toEqual(Object.keys(direct));
      for (const [name, value] of Object.entries(direct)) expect(merged[name], name).toBeCloseTo(value, 10);
    }
  });

  it("does not change its inputs", () => {
    const sequences = randomSequences({ seed: 6 });
    const before = JSON.stringify(sequences);
    const micro = score(algorithm, sequences);
    const scored = JSON.stringify(micro);
    algorithm.loss(micro, countsOf(sequences));
    expect([JSON.stringify(sequences), JSON.stringify(micro)]).toEqual([before, scored]);
  });

  it("lets NaN through to the loss instead of hiding it", () => {
    const micro = score(algorithm, randomSequences({ seed: 7 }));
    micro[2]!.logprobs[0] = Number.NaN;
    micro[2]!.advantages.fill(1);
    expect(algorithm.loss(micro, countsOf(micro)).loss).toBeNaN();
    const bad = randomSequences({ seed: 7 });
    bad[0]!.reward = Number.NaN;
    bad[0]!.breakdown.style = Number.NaN;
    expect(algorithm.advantages(bad)[0]!.advantages.some(Number.isNaN)).toBe(true);
  });

  it("stays finite on 2,000-token sequences, near and far from the policy that sampled", () => {
    for (const drift of [0, 0.05, 3]) {
      const sequences = randomSequences({ seed: 8, groups: 1, groupSize: 4, maxTokens: 1 }).map((short, i) => {
        const tile = <T extends Float32Array | Int32Array>(a: T) => new (a.constructor as { new (n: number): T })(2000);
        const fill = (a: Float32Array, scale: number) => tile(a).map((_, t) => scale * (1.5 + Math.sin(t * (i + 1))));
        return {
          ...short,
          old: fill(short.old, -2),
          ref: fill(short.old, -2.1),
          oldValues: fill(short.old, 0.1),
          turn: tile(short.turn).fill(1),
        };
      });
      const { loss, dLogprobs, metrics } = algorithm.loss(score(algorithm, sequences, drift), countsOf(sequences));
      expect(Number.isFinite(loss)).toBe(true);
      expect(dLogprobs.every((own) => own.every(Number.isFinite))).toBe(true);
      expect(Object.values(meanMetrics(metrics)).every(Number.isFinite)).toBe(true);
    }
  });

  it("has ratio exactly 1 and clips nothing on the policy that sampled", () => {
    // GEPO's weight is relative to its group's expectation: it is not 1 on policy, by definition.
    if (algorithm.name === "gepo") return;
    const sequences = randomSequences({ seed: 9 });
    const micro = score(algorithm, sequences, 0).map((own) => ({ ...own, logprobs: own.old, values: own.oldValues! }));
    const means = meanMetrics(algorithm.loss(micro, countsOf(sequences)).metrics);
    expect(means.approxKl).toBe(0);
    if ("ratio" in means) expect([means.ratio, means.ratioMax]).toEqual([1, 1]);
    if ("clipFraction" in means) expect(means.clipFraction).toBe(0);
  });

  it("points uphill: on policy, a step against the gradient raises the likelihood of better-than-average replies", () => {
    const sequences = randomSequences({ seed: 10 }).map((sequence) => ({
      ...sequence,
      ref: sequence.old,
      turnRewards: {},
      oldValues: sequence.old.map(() => 0.5),
      reward: sequence.old.length % 2,
      breakdown: { correct: sequence.old.length % 2, style: sequence.old.length % 2 },
    }));
    const micro = score(algorithm, sequences, 0).map((own) => ({ ...own, logprobs: own.old, values: own.oldValues! }));
    const { dLogprobs } = algorithm.loss(micro, countsOf(sequences));
    let progress = 0;
    for (const [i, own] of dLogprobs.entries()) for (const d of own) progress -= d * (sequences[i]!.reward - 0.5);
    expect(progress).toBeGreaterThan(0);
  });
});

describe("a group whose rewards are all the same", () => {
  // 0.1 + 0.2 is not exact in binary: a mean over seven of them is off by rounding, and must not become a signal.
  const sequences = randomSequences({ seed: 11, groupSize: 7 }).map((sequence) => ({
    ...sequence,
    reward: 0.1 + 0.2,
    turnRewards: {},
    breakdown: { correct: 0.1 + 0.2, style: 0.7 },
  }));
  const relative = named.filter(([, algorithm]) => !algorithm.needs.values && algorithm.name !== "reinforce++");
  it.each(relative.filter(([, { options }]) => options.baseline !== "none"))("%s gives exactly 0", (_, algorithm) => {
    for (const { advantages } of algorithm.advantages(sequences)) expect(advantages.every((a) => a === 0)).toBe(true);
  });
});

describe("GRPO, GSPO and GSPO-token", () => {
  const sequences = randomSequences({ seed: 12 });
  const gradient = (config: AlgorithmConfig, drift: number) => {
    const algorithm = createAlgorithm(config);
    const micro = score(algorithm, sequences, drift);
    const scored = drift === 0 ? micro.map((own) => ({ ...own, logprobs: own.old })) : micro;
    return Float32Array.from(algorithm.loss(scored, countsOf(sequences)).dLogprobs.flatMap((own) => [...own]));
  };
  const distance = (a: Float32Array, b: Float32Array) => Math.max(...a.map((value, i) => Math.abs(value - b[i]!)));

  it("are one gradient in the first pass over a rollout", () => {
    const [grpo, gspo, token] = (["grpo", "gspo", "gspo-token"] as const).map((name) =>
      gradient({ algorithm: name }, 0),
    );
    expect(Math.max(...grpo!)).toBeGreaterThan(0.01);
    expect(distance(gspo!, grpo!)).toBeLessThan(1e-7);
    expect(distance(token!, grpo!)).toBeLessThan(1e-7);
  });

  it("part in later ones: GSPO from GRPO, GSPO-token from GSPO where turns have advantages of their own", () => {
    // The clip is out of the way, so that it is the ratios that differ.
    const wide = { epsilonLow: 0.9999, epsilonHigh: 1e6 };
    const grpo = gradient({ algorithm: "grpo", ...wide }, 0.4);
    const gspo = gradient({ algorithm: "gspo", ...wide }, 0.4);
    expect(distance(gspo, grpo)).toBeGreaterThan(1e-3);
    expect(distance(gradient({ algorithm: "gspo-token", ...wide }, 0.4), gspo)).toBeLessThan(1e-7);
    const byTurn = gradient({ algorithm: "gspo-token", credit: "turn", ...wide }, 0.4);
    expect(distance(byTurn, gspo)).toBeGreaterThan(1e-3);
  });
});
