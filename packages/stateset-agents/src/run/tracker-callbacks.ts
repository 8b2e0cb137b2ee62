import type { RunCallbacks } from "./callbacks.ts";
import { evaluationMetrics } from "./evaluation-metrics.ts";
import { finiteMetrics } from "./metrics.ts";
import { guardTrackers, outcomeOf, type Tracker } from "./tracker.ts";

/** Trackers as a callback of a run. They only ever get numbers, and a failing one is left alone after a warning. */
export function trackerCallbacks(
  trackers: readonly Tracker[],
  warn: (message: string) => void,
): RunCallbacks | undefined {
  if (trackers.length === 0) return undefined;
  const all = guardTrackers(trackers, { warn });
  return {
    onStart: ({ id, dir = ".", saved, resumedAfter }) =>
      all.start({ id, dir, config: { ...saved }, ...(resumedAfter !== undefined && { resumedAfter }) }),
    onStepEnd: ({ metrics: { step, ...metrics } }) => all.log(step, metrics),
    onEvaluation(evaluation) {
      const { step, ...metrics } = finiteMetrics(evaluation.step, evaluationMetrics(evaluation));
      return all.log(step, metrics);
    },
    onEnd: ({ status, steps, reason }) =>
      all.finish({
        status: outcomeOf(status),
        steps,
        ...(reason !== undefined && status === "failed" && { error: reason }),
      }),
  };
}
