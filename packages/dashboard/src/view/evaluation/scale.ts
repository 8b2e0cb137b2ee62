/** The scale that estimates of one table share. */
import type { EstimateData } from "../../../../stateset-agents/src/dashboard/api/index.ts";

export interface Scale {
  low: number;
  high: number;
  /** 0 at the low end, 1 at the high one. */
  share(value: number): number;
}

/** 0 to 1 where all lies between, since rewards mostly do; otherwise as far as means and intervals go. */
export function scaleOf(estimates: readonly EstimateData[]): Scale {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const { mean, low: from, high: to } of estimates) {
    for (const value of [mean, from, to]) {
      if (typeof value !== "number" || !Number.isFinite(value)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (!(low < 0 || high > 1)) [low, high] = [0, 1];
  const range = high - low;
  return { low, high, share: (value) => (range === 0 ? 0.5 : Math.min(1, Math.max(0, (value - low) / range))) };
}
