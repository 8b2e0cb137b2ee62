import { twoSided } from "../../packages/stateset-agents/src/evaluation/quantile.ts";

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

export const range = (values: readonly number[]): [number, number] => [Math.min(...values), Math.max(...values)];

/** Without `share` of the values at either end, and half of its 95% interval by the winsorised variance (Yuen 1974). */
export function trimmedMean(values: readonly number[], share: number): { mean: number; half: number } {
  const sorted = [...values].sort((a, b) => a - b);
  const [n, cut] = [sorted.length, Math.floor(sorted.length * share)];
  const average = (list: readonly number[]) => list.reduce((sum, one) => sum + one, 0) / list.length;
  const kept = sorted.slice(cut, n - cut);
  const drawnIn = sorted.map((value) => Math.min(Math.max(value, kept[0]!), kept.at(-1)!));
  const centre = average(drawnIn);
  const variance = drawnIn.reduce((sum, one) => sum + (one - centre) ** 2, 0) / (n - 1);
  const error = Math.sqrt(variance / n) / (1 - 2 * share);
  return { mean: average(kept), half: twoSided(0.95, kept.length - 1) * error };
}
