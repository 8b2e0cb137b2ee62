import { StatesetError } from "../error.ts";
import { createRandom } from "../random.ts";
import { type Estimate, mean } from "./estimate.ts";

export interface PairedResult {
  /** Of b - a, over pairs. Its interval holds 0 exactly when the verdict is "same", and is not there when it is "unknown". */
  difference: Estimate;
  /** Two-sided: how often a difference at least this large arises when the labels a and b mean nothing. */
  pValue: number;
  /** Which is better at this level; "same" when chance explains the difference; "unknown" when there are too few pairs to tell at all. */
  verdict: "a" | "b" | "same" | "unknown";
  wins: { a: number; b: number; ties: number };
}

export interface PairedOptions {
  /** 0.95: of a hundred comparisons of equals five are called different. */
  level?: number;
  /** Of the subsets that are drawn where there are too many to count. */
  seed?: number;
  resamples?: number;
}

/** Up to this many pairs all 2^n sign patterns are counted, so the p-value is exact. */
const exactPairs = 14;

/**
 * Compares two lists of scores of the same scenarios. Each pair shares its scenario, so what makes a scenario hard cancels out.
 *
 * p-value: sign-flip permutation test (Fisher 1935) on the mean difference. Interval: the differences that this test does not refuse, so
 * the two cannot disagree. Flipping the signs of a subset S of the differences d − δ lowers their sum exactly when the mean of d over S is
 * above δ; therefore the ends of the interval are order statistics of the means of subsets ("typical values", Hartigan 1969).
 * Of n pairs the least p-value is 2^(1−n): at 95% it takes 6 pairs to tell anything.
 */
export function pairedTest(a: readonly number[], b: readonly number[], options: PairedOptions = {}): PairedResult {
  if (a.length !== b.length || a.length === 0) {
    throw new StatesetError(
      "INVALID_DATA",
      `A paired test needs equally many scores, and at least one: got ${a.length} and ${b.length}.`,
    );
  }
  const alpha = 1 - (options.level ?? 0.95);
  const differences = a.map((score, i) => b[i]! - score);
  const means = subsetMeans(differences, options).sort();
  const below = means.filter((value) => value <= 0).length;
  const above = means.filter((value) => value >= 0).length;
  // The labelling that was observed is one of the patterns, so the p-value is never 0.
  const patterns = means.length + 1;
  const pOf = (asLarge: number) => Math.min(1, (2 * (1 + asLarge)) / patterns);
  const pValue = pOf(Math.min(below, above));
  let refused = 0;
  while (refused < means.length && pOf(refused) < alpha) refused++;
  const tells = refused > 0;
  const summary = { mean: mean(differences), count: a.length };
  const verdict = !tells ? "unknown" : pValue < alpha ? (summary.mean > 0 ? "b" : "a") : "same";
  return {
    difference: tells ? { ...summary, low: means[refused - 1]!, high: means[means.length - refused]! } : summary,
    pValue,
    verdict,
    wins: {
      a: differences.filter((d) => d < 0).length,
      b: differences.filter((d) => d > 0).length,
      ties: differences.filter((d) => d === 0).length,
    },
  };
}

/** The pairs it takes to tell anything at a level. */
export function fewestPairs(level = 0.95): number {
  let pairs = 1;
  while (2 ** (1 - pairs) >= 1 - level) pairs++;
  return pairs;
}

/** Of all subsets but the empty one, or of `resamples` drawn ones. */
function subsetMeans(values: readonly number[], { seed = 0, resamples = 9999 }: PairedOptions): Float64Array {
  const n = values.length;
  // A sum that is only rounding away from 0 is 0.
  const nothing = 1e-12 * values.reduce((sum, value) => sum + Math.abs(value), 0);
  const meanOf = (sum: number, size: number) => (Math.abs(sum) <= nothing ? 0 : sum / size);
  if (n <= exactPairs) {
    return Float64Array.from({ length: 2 ** n - 1 }, (_, i) => {
      let [sum, size] = [0, 0];
      for (let k = 0; k < n; k++) {
        if (((i + 1) & (1 << k)) === 0) continue;
        sum += values[k]!;
        size++;
      }
      return meanOf(sum, size);
    });
  }
  const random = createRandom(seed);
  return Float64Array.from({ length: resamples }, () => {
    let [sum, size] = [0, 0];
    while (size === 0) {
      for (const value of values) {
        if (random.next() < 0.5) continue;
        sum += value;
        size++;
      }
    }
    return meanOf(sum, size);
  });
}
