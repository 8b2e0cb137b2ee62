import { guardTrackers, type Tracker } from "../run/tracker.ts";
import type { TrainingCallbacks } from "./callbacks.ts";

/** Trackers as callbacks of a run. They only ever get numbers, and a failing one is left alone after a warning. */
export function trackerCallbacks(trackers: readonly Tracker[], warn: (message: string) => void): TrainingCallbacks[] {
  if (trackers.length === 0) return [];
  const all = guardTrackers(trackers, { warn });
  return [
    {
      onStart: ({ id, dir, config, algorithm, resumedAfter }) =>
        all.start({
          id,
          dir: dir ?? ".",
          config: { ...config, algorithm },
          ...(resumedAfter !== undefined && { resumedAfter }),
        }),
      onStepEnd: ({ step, metrics }) => all.log(step, metrics),
      onEnd: ({ status, steps, reason }) =>
        all.finish({
          status: status === "stopped-early" ? "finished" : status,
          steps,
          ...(reason !== undefined && status === "failed" && { error: reason }),
        }),
    },
  ];
}
