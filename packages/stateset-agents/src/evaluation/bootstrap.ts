import { createRandom } from "../random.ts";

/** A mean with the interval its bootstrap distribution gives. */
export interface Estimate {
  mean: number;
  /** Bounds of the confidence interval. */
  low: number;
  high: number;
  /** How many independent units (scenarios, usually) it rests on. */
  count: number;
}

export interface BootstrapOptions {
  seed?: number;
  /** How often the units are drawn anew. */
  resamples?: number;
  /** 0.95: the interval covers the middle 95%. */
  level?: number;
}

/**
 * The mean of `values` with a percentile bootstrap interval (Efron 1979).
 * Values must be independent: several samples of one scenario are one unit, so average them first (see `bootstrapGroups`).
 */
export function bootstrapMean(values: readonly number[], options: BootstrapOptions = {}): Estimate {
  const { seed = 0, resamples = 2000, level = 0.95 } = options;
  const n = values.length;
  if (n === 0) return { mean: Number.NaN, low: Number.NaN, high: Number.NaN, count: 0 };
  const random = createRandom(seed);
  const means = new Float64Array(resamples);
  for (let r = 0; r < resamples; r++) {
    let sum = 0;
    for (let i = 0; i < n; i++) sum += values[random.below(n)]!;
    means[r] = sum / n;
  }
  means.sort();
  const tail = (1 - level) / 2;
  return { mean: mean(values), low: quantile(means, tail), high: quantile(means, 1 - tail), count: n };
}

/** Like `bootstrapMean` for samples that come in groups (the samples of one scenario): groups are drawn, not samples. */
export function bootstrapGroups(groups: readonly (readonly number[])[], options: BootstrapOptions = {}): Estimate {
  return bootstrapMean(groups.filter((group) => group.length > 0).map(mean), options);
}

/** Linear interpolation between the order statistics of sorted values. */
export function quantile(sorted: ArrayLike<number>, q: number): number {
  const position = (sorted.length - 1) * q;
  const below = Math.floor(position);
  const share = position - below;
  const low = sorted[below]!;
  return share === 0 ? low : low + (sorted[below + 1]! - low) * share;
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
