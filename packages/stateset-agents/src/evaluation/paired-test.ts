import { StatesetError } from "../error.ts";
import { createRandom } from "../random.ts";
import { type BootstrapOptions, bootstrapMean, type Estimate } from "./bootstrap.ts";

export interface PairedResult {
  /** Of b - a, over pairs. */
  difference: Estimate;
  /** Two-sided: how often a difference at least this large arises when the labels a and b mean nothing. */
  pValue: number;
  /** Which is better at this level, or "same" when chance explains the difference. */
  verdict: "a" | "b" | "same";
  wins: { a: number; b: number; ties: number };
}

/** Up to this many pairs all 2^n sign patterns are counted, so the p-value is exact. */
const exactPairs = 14;

/**
 * Compares two lists of scores of the same scenarios. Each pair shares its scenario, so what makes a scenario hard cancels out.
 * p-value: sign-flip permutation test (Fisher 1935) on the mean difference. Interval: bootstrap over pairs.
 */
export function pairedTest(a: readonly number[], b: readonly number[], options: BootstrapOptions = {}): PairedResult {
  if (a.length !== b.length || a.length === 0) {
    throw new StatesetError(
      "INVALID_DATA",
      `A paired test needs equally many scores, and at least one: got ${a.length} and ${b.length}.`,
    );
  }
  const differences = a.map((score, i) => b[i]! - score);
  const difference = bootstrapMean(differences, options);
  const level = options.level ?? 0.95;
  const pValue = signFlip(differences, options);
  const significant = pValue < 1 - level;
  return {
    difference,
    pValue,
    verdict: significant ? (difference.mean > 0 ? "b" : "a") : "same",
    wins: {
      a: differences.filter((d) => d < 0).length,
      b: differences.filter((d) => d > 0).length,
      ties: differences.filter((d) => d === 0).length,
    },
  };
}

function signFlip(differences: readonly number[], options: BootstrapOptions): number {
  const moved = differences.filter((d) => d !== 0);
  if (moved.length === 0) return 1;
  const observed = Math.abs(moved.reduce((sum, d) => sum + d, 0));
  // A pattern that only repeats the observed sum up to rounding counts as at least as large.
  const bar = observed - 1e-12 * moved.reduce((sum, d) => sum + Math.abs(d), 0);
  if (moved.length <= exactPairs) {
    let asLarge = 0;
    const patterns = 2 ** moved.length;
    for (let pattern = 0; pattern < patterns; pattern++) {
      let sum = 0;
      for (let i = 0; i < moved.length; i++) sum += pattern & (1 << i) ? moved[i]! : -moved[i]!;
      if (Math.abs(sum) >= bar) asLarge++;
    }
    return asLarge / patterns;
  }
  const { seed = 0, resamples = 10_000 } = options;
  const random = createRandom(seed);
  let asLarge = 0;
  for (let r = 0; r < resamples; r++) {
    let sum = 0;
    for (const d of moved) sum += random.next() < 0.5 ? d : -d;
    if (Math.abs(sum) >= bar) asLarge++;
  }
  // The observed labelling is one of the permutations, so the p-value is never 0.
  return (asLarge + 1) / (resamples + 1);
}
