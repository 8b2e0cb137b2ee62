/** Whether the reward is where it should be: what looks like an illness at the best reward of the run is often the right end of a task. */
import { mean } from "../../evaluation/estimate.ts";
import type { StepSignals } from "./signals.ts";

export interface RewardRange {
  low: number;
  high: number;
}

export interface Progress {
  /** The mean reward of the last steps. */
  level: number;
  /** Its change since the first step, in standard errors. */
  rise: number;
  /** The same of this step alone, which shows sooner. */
  riseNow: number;
  /** No worse than the best the run has had, as far as noise lets one say. */
  atBest: boolean;
}

/** Steps that a level is the mean of. */
const smoothing = 3;

/** `best` is the highest level before. */
export function progressOf(
  now: StepSignals,
  start: StepSignals,
  recent: readonly StepSignals[],
  { best, range }: { best: number | null; range: RewardRange | null },
): Progress {
  const last = [...recent, now].slice(-smoothing);
  const level = mean(last.map(({ reward }) => reward.mean));
  // Rewards that are all alike have no error, which does not make a hair's breadth a change.
  const least = range === null ? 0 : 0.02 * (range.high - range.low);
  const errorOf = (steps: readonly StepSignals[]) =>
    Math.max(least, Math.sqrt(mean(steps.map(({ reward }) => reward.error ** 2)) / steps.length));
  const since = (value: number, error: number) =>
    (value - start.reward.mean) / Math.max(1e-9, Math.hypot(error, errorOf([start])));
  return {
    level,
    rise: since(level, errorOf(last)),
    riseNow: since(now.reward.mean, errorOf([now])),
    atBest: best === null || level >= best - 2 * Math.hypot(errorOf(last), least),
  };
}
