import { createRandom } from "stateset-agents";
import type { Measured, Score } from "./measure.ts";

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
  /** After training, seed by seed. */
  bySeed: ({ seed: number } & Score)[];
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
    bySeed: right.map(({ seed, after: own }) => ({ seed, ...own })),
    curve,
    flippedCurve: meanCurve(flipped.map((run) => run.curve)),
  };
}

export interface Difference {
  /** Of the share after training, with its 95% interval. */
  mean: number;
  low: number;
  high: number;
  /** Whether the interval lies above zero, below it, or holds it. */
  verdict: "better" | "worse" | "even";
}

/**
 * How much better one is than another over the seeds both have. A seed fixes the untrained model and the conversations of the evaluation, so
 * seeds are compared in pairs. Bootstrap in two levels: seeds are drawn anew, and each drawn mean errs as its conversations let it.
 * Undefined where they have no seed in common.
 */
export function compare(one: Verdict, other: Verdict, resamples = 4000): Difference | undefined {
  const pairs = one.bySeed.flatMap((a) => {
    const b = other.bySeed.find(({ seed }) => seed === a.seed);
    return b ? [{ gain: a.mean - b.mean, error: Math.hypot(a.standardError, b.standardError) }] : [];
  });
  if (pairs.length === 0) return undefined;
  const random = createRandom(0);
  // Box–Muller; 1 − u keeps the logarithm finite.
  const normal = () => Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
  const means = Float64Array.from({ length: resamples }, () => {
    let sum = 0;
    for (let i = 0; i < pairs.length; i++) {
      const { gain, error } = pairs[random.below(pairs.length)]!;
      sum += gain + error * normal();
    }
    return sum / pairs.length;
  }).sort();
  const [low, high] = [quantile(means, 0.025), quantile(means, 0.975)];
  return {
    mean: pairs.reduce((sum, { gain }) => sum + gain, 0) / pairs.length,
    low,
    high,
    verdict: low > 0 ? "better" : high < 0 ? "worse" : "even",
  };
}

/** Conversations sampled until the mean curve stays above a share; undefined when training ends below it. */
export function conversationsTo(share: number, { curve, after, conversations }: Verdict): number | undefined {
  if (!(after > share)) return undefined;
  return (conversations * (curve.findLastIndex((own) => own < share) + 1)) / curve.length;
}

function meanCurve(curves: readonly (readonly number[])[]): number[] {
  const length = Math.min(...curves.map((curve) => curve.length));
  return Array.from({ length }, (_, i) => curves.reduce((sum, curve) => sum + curve[i]!, 0) / curves.length);
}

/** Linear interpolation between the order statistics of sorted values. */
function quantile(sorted: ArrayLike<number>, q: number): number {
  const position = (sorted.length - 1) * q;
  const below = Math.floor(position);
  const share = position - below;
  const low = sorted[below]!;
  return share === 0 ? low : low + (sorted[below + 1]! - low) * share;
}
