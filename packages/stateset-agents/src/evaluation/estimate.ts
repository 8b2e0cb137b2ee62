import { twoSided } from "./quantile.ts";

/** A mean over independent units (scenarios, usually) and, where there are enough of them, its confidence interval. */
export type Estimate = {
  mean: number;
  /** How many units it rests on. */
  count: number;
} & (
  | { low: number; high: number }
  /** Too few units, or all alike on a scale without known ends: nothing says how far off the mean may be. */
  | { low?: undefined; high?: undefined }
);

export interface EstimateOptions {
  /** 0.95: of a hundred intervals ninety-five hold the true mean. */
  level?: number;
  /** The ends of the scale. Left out: 0 and 1 where all values lie between them, otherwise unknown. */
  bounds?: readonly [number, number];
}

/** Below this many units no interval is given: whatever it is made of, it would be a guess. */
export const fewestUnits = 5;

/** The share of Hall's correction that is made, chosen by the simulation in estimate.test.ts: all of it is too wide for scores in two clusters. */
const skewShare = 0.45;

/**
 * The mean of `values` with its interval. Values must be independent: several samples of one scenario are one unit, so average them first
 * (see `estimateGroups`).
 *
 * Student's t with a part of Hall's correction for skewness (Hall 1992, "On the removal of skewness by transformation"), cut at the ends
 * of the scale; where every value is at one of its ends (pass or fail) Wilson's interval (1927), which also says what n equal values leave
 * open. estimate.test.ts measures how often they hold the true mean. What no interval knows is a rare outcome that none of the units had.
 */
export function estimateMean(values: readonly number[], options: EstimateOptions = {}): Estimate {
  const { level = 0.95 } = options;
  const count = values.length;
  const centre = count === 0 ? Number.NaN : mean(values);
  if (count < fewestUnits || !Number.isFinite(centre)) return { mean: centre, count };
  const bounds = options.bounds ?? unitBounds(values);
  const deviation = standardDeviation(values);
  const alike = deviation <= 1e-9 * Math.max(...values.map(Math.abs));
  if (bounds && (alike || values.every((value) => bounds.includes(value)))) {
    return { mean: centre, count, ...wilson(centre, count, bounds, level, alike) };
  }
  if (alike) return { mean: centre, count };
  const t = twoSided(level, count - 1);
  const error = deviation / Math.sqrt(count);
  const skew = (skewShare * skewness(values, centre, deviation)) / Math.sqrt(count);
  const [least, most] = bounds ?? [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  const end = (value: number) => Math.min(most, Math.max(least, value));
  return {
    mean: centre,
    count,
    low: end(centre - unskewed(t, skew) * error),
    high: end(centre - unskewed(-t, skew) * error),
  };
}

/** Like `estimateMean` for samples that come in groups (the samples of one scenario): each group is one unit. */
export function estimateGroups(groups: readonly (readonly number[])[], options: EstimateOptions = {}): Estimate {
  return estimateMean(groups.filter((group) => group.length > 0).map(mean), options);
}

function unitBounds(values: readonly number[]): readonly [number, number] | undefined {
  return values.every((value) => value >= 0 && value <= 1) ? [0, 1] : undefined;
}

/**
 * Wilson's interval between the ends of the scale. Values that are all alike are n trials in none of which anything else happened; what
 * the share of anything else may be, at either end of the scale, is what is left open.
 */
function wilson(centre: number, n: number, [least, most]: readonly [number, number], level: number, alike: boolean) {
  const z2 = twoSided(level, Number.POSITIVE_INFINITY) ** 2;
  if (alike) {
    const open = z2 / (n + z2);
    return { low: centre - (centre - least) * open, high: centre + (most - centre) * open };
  }
  const range = most - least;
  const share = (centre - least) / range;
  const middle = (share + z2 / (2 * n)) / (1 + z2 / n);
  const half = (Math.sqrt(z2) / (1 + z2 / n)) * Math.sqrt((share * (1 - share)) / n + z2 / (4 * n * n));
  return { low: least + range * (middle - half), high: least + range * (middle + half) };
}

/** The inverse of Hall's g(t) = t + s t²/3 + s² t³/27 + s/6, which makes a t-statistic of skewed values symmetric. s = skewness / √n. */
function unskewed(t: number, s: number): number {
  return Math.abs(s) < 1e-9 ? t : (3 / s) * (Math.cbrt(1 + s * (t - s / 6)) - 1);
}

/** Adjusted for small samples (G1 of Joanes & Gill 1998). */
function skewness(values: readonly number[], centre: number, deviation: number): number {
  const n = values.length;
  return (n ** 2 / ((n - 1) * (n - 2))) * mean(values.map((value) => ((value - centre) / deviation) ** 3));
}

export function mean(values: readonly number[]): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum / values.length;
}

/** Sample standard deviation (n - 1); 0 for fewer than two values. */
export function standardDeviation(values: readonly number[]): number {
  if (values.length < 2) return 0;
  const centre = mean(values);
  let sum = 0;
  for (const value of values) sum += (value - centre) ** 2;
  return Math.sqrt(sum / (values.length - 1));
}
