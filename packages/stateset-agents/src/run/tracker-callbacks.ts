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
  let begun: number | undefined;
  return {
    async onStart({ id, dir = ".", saved, resumedAfter }) {
      // It goes on from a checkpoint in the same process: to a tracker that is another start.
      if (begun !== undefined) await all.finish({ status: "interrupted", steps: begun });
      begun = resumedAfter ?? 0;
      await all.start({ id, dir, config: { ...saved }, ...(resumedAfter !== undefined && { resumedAfter }) });
    },
    onStepEnd({ metrics: { step, ...metrics } }) {
      begun = step;
      return all.log(step, metrics);
    },
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
