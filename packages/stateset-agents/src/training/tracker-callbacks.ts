import { guardTrackers, type Tracker } from "../run/tracker.ts";
import type { TrainingCallbacks } from "./callbacks.ts";
import { evaluationMetrics } from "./held-out.ts";
import { finiteMetrics } from "./step-metrics.ts";

/** Trackers as a callback of a run. They only ever get numbers, and a failing one is left alone after a warning. */
export function trackerCallbacks(
  trackers: readonly Tracker[],
  warn: (message: string) => void,
): TrainingCallbacks | undefined {
  if (trackers.length === 0) return undefined;
  const all = guardTrackers(trackers, { warn });
  return {
    onStart: ({ id, dir = ".", config, algorithm, resumedAfter }) =>
      all.start({ id, dir, config: { ...config, algorithm }, ...(resumedAfter !== undefined && { resumedAfter }) }),
    onStepEnd: ({ step, metrics }) => all.log(step, metrics),
    onEvaluation: (evaluation) =>
      all.log(evaluation.step, finiteMetrics(evaluation.step, evaluationMetrics(evaluation))),
    onEnd: ({ status, steps, reason }) =>
      all.finish({
        status: status === "stopped-early" ? "finished" : status,
        steps,
        ...(reason !== undefined && status === "failed" && { error: reason }),
      }),
  };
}
