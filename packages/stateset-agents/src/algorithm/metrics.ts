import type { MetricSums } from "./algorithm.ts";

/** Adds `value` (a sum over `count` tokens or sequences) to a metric. */
export function addMetric(metrics: MetricSums, name: string, value: number, count = 1): void {
  const metric = metrics[name];
  if (metric) {
    metric.sum += value;
    metric.count += count;
  } else metrics[name] = { sum: value, count };
}

export function maxMetric(metrics: MetricSums, name: string, value: number): void {
  const max = Math.max(metrics[name]?.max ?? value, value);
  metrics[name] = { sum: max, count: 1, max };
}

/** Adds one micro-batch's metrics to those of the optimiser batch. */
export function mergeMetrics(into: MetricSums, from: Readonly<MetricSums>): MetricSums {
  for (const [name, { sum, count, max }] of Object.entries(from)) {
    if (max === undefined) addMetric(into, name, sum, count);
    else maxMetric(into, name, max);
  }
  return into;
}

/** Second moments, kept only to derive the explained variance from; not worth reporting themselves. */
const moments = ["returnSquared", "valueErrorSquared"];

/**
 * Each metric's mean (or maximum), and with values `explainedVariance` = 1 − Var(R − V) / Var(R):
 * 1 when the value head predicts the returns, ≤ 0 when it is no better than a constant. Left out when the returns do not vary.
 */
export function meanMetrics(sums: Readonly<MetricSums>): Record<string, number> {
  const means: Record<string, number> = {};
  for (const [name, { sum, count, max }] of Object.entries(sums)) {
    if (max !== undefined) means[name] = max;
    else if (count > 0) means[name] = sum / count;
  }
  const { return: r, returnSquared, valueError, valueErrorSquared } = means;
  if (r !== undefined && returnSquared !== undefined && valueError !== undefined && valueErrorSquared !== undefined) {
    const variance = returnSquared - r * r;
    if (variance > 1e-12) means.explainedVariance = 1 - (valueErrorSquared - valueError * valueError) / variance;
  }
  for (const name of moments) delete means[name];
  return means;
}
