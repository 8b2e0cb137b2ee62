import { describe, expect, it } from "vitest";
import type { LossSequence } from "../algorithm/algorithm.ts";
import { createRandom } from "../random.ts";
import { type Regularisers, regularise } from "./regularise.ts";

const random = createRandom(3);
const numbers = (n: number) => Float32Array.from({ length: n }, () => -3 * random.next());
const micro = [4, 7].map(
  (n): LossSequence => ({
    group: 0,
    old: numbers(n),
    ref: numbers(n),
    logprobs: numbers(n),
    entropy: numbers(n).map((x) => -x),
    advantages: new Float32Array(n),
    turn: new Int32Array(n),
    reward: 0,
    breakdown: {},
    turnRewards: {},
    truncated: false,
  }),
);
const counts = { sequences: 2, tokens: 11, groups: 1, maxTokens: 16 };
const empty = () => ({ loss: 0.5, dLogprobs: micro.map((s) => new Float32Array(s.old.length)), metrics: {} });

describe("regularise", () => {
  it.each(["k2", "k3"] as const)("has the derivatives finite differences have (%s)", (klEstimator) => {
    const options: Regularisers = { klCoefficient: 0.7, klEstimator, entropyBonus: 0.3 };
    const at = () => regularise(empty(), micro, counts, options);
    const { dLogprobs, dEntropy } = at();
    for (const [numbersOf, derivatives] of [
      [(s: LossSequence) => s.logprobs, dLogprobs],
      [(s: LossSequence) => s.entropy!, dEntropy!],
    ] as const) {
      micro.forEach((sequence, i) => {
        const values = numbersOf(sequence);
        for (let t = 0; t < values.length; t++) {
          const kept = values[t]!;
          values[t] = kept + 2 ** -6;
          const up = at().loss;
          values[t] = kept - 2 ** -6;
          const down = at().loss;
          values[t] = kept;
          expect(derivatives[i]![t]).toBeCloseTo((up - down) / 2 ** -5, 3);
        }
      });
    }
  });

  it("leaves the loss alone when both coefficients are 0, and reports the KL otherwise", () => {
    const result = empty();
    expect(regularise(result, micro, counts, { klCoefficient: 0, klEstimator: "k3", entropyBonus: 0 })).toBe(result);
    const { metrics, loss } = regularise(empty(), micro, counts, {
      klCoefficient: 1,
      klEstimator: "k3",
      entropyBonus: 0,
    });
    expect(metrics.kl).toMatchObject({ count: 11 });
    expect(loss).toBeCloseTo(0.5 + metrics.kl!.sum / 11, 6);
  });
});
