import type { Measured } from "./measure.ts";

/** What one algorithm did over all seeds. */
export interface Verdict {
  before: number;
  after: number;
  /** After training on the negated reward. */
  flipped: number;
  /** In every seed the interval after lies above the one before, and with the sign flipped below it. */
  rises: boolean;
  falls: boolean;
  seconds: number;
  updates: number;
  /** The first update after which the training share stayed above halfway between before and after (mean curve). */
  updatesToHalf: number;
  conversations: number;
  seeds: number;
  curve: number[];
  flippedCurve: number[];
}

export function judge(right: readonly Measured[], flipped: readonly Measured[]): Verdict {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const curve = meanCurve(right.map((run) => run.curve));
  const before = mean([...right, ...flipped].map((run) => run.before.mean));
  const after = mean(right.map((run) => run.after.mean));
  const updates = mean(right.map((run) => run.updates));
  const halfway = (before + after) / 2;
  const reached = curve.findLastIndex((share) => share < halfway) + 1;
  return {
    before,
    after,
    flipped: mean(flipped.map((run) => run.after.mean)),
    rises: right.every((run) => run.after.low > run.before.high),
    falls: flipped.every((run) => run.after.high < run.before.low),
    seconds: mean(right.map((run) => run.seconds)),
    updates,
    updatesToHalf: Math.round((updates * reached) / curve.length),
    conversations: mean(right.map((run) => run.conversations)),
    seeds: right.length,
    curve,
    flippedCurve: meanCurve(flipped.map((run) => run.curve)),
  };
}

function meanCurve(curves: readonly (readonly number[])[]): number[] {
  const length = Math.min(...curves.map((curve) => curve.length));
  return Array.from({ length }, (_, i) => curves.reduce((sum, curve) => sum + curve[i]!, 0) / curves.length);
}
