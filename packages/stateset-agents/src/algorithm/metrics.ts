import type { MetricSums } from "./algorithm.ts";
import type { algorithmMetrics, LossMetricName, NumbersOf } from "./metric-table.ts";

/** Adds `value` (a sum over `count` tokens or sequences) to a metric. */
export function addMetric(metrics: MetricSums, name: LossMetricName, value: number, count = 1): void {
  addSum(metrics, name, value, count);
}

export function maxMetric(metrics: MetricSums, name: LossMetricName, value: number): void {
  keepMax(metrics, name, value);
}

/** Adds one micro-batch's metrics to those of the optimiser batch. */
export function mergeMetrics(into: MetricSums, from: Readonly<MetricSums>): MetricSums {
  for (const [name, { sum, count, max }] of Object.entries(from)) {
    if (max === undefined) addSum(into, name, sum, count);
    else keepMax(into, name, max);
  }
  return into;
}

/** A metric may be called what every object has: "constructor". */
function own(metrics: Readonly<MetricSums>, name: string): MetricSums[string] | undefined {
  return Object.hasOwn(metrics, name) ? metrics[name] : undefined;
}

function addSum(metrics: MetricSums, name: string, value: number, count: number): void {
  const metric = own(metrics, name);
  if (metric) {
    metric.sum += value;
    metric.count += count;
  } else metrics[name] = { sum: value, count };
}

function keepMax(metrics: MetricSums, name: string, value: number): void {
  const max = Math.max(own(metrics, name)?.max ?? value, value);
  metrics[name] = { sum: max, count: 1, max };
}

/** Second moments, kept only to derive the explained variance from; not worth reporting themselves. */
const moments = ["returnSquared", "valueErrorSquared"] as const satisfies LossMetricName[];

/** Those of the table, and whatever else an algorithm of a user's own adds up. */
type Means = NumbersOf<typeof algorithmMetrics> & Record<string, number>;

/**
 * Each metric's mean (or maximum), and with values `explainedVariance` = 1 − Var(R − V) / Var(R):
 * 1 when the value head predicts the returns, ≤ 0 when it is no better than a constant. Left out when the returns do not vary.
 */
export function meanMetrics(sums: Readonly<MetricSums>): Means {
  const means: Means = {};
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
