import type { TrainingCallbacks } from "../training/callbacks.ts";
import { type GuardOptions, guardTrackers, type Tracker } from "./tracker.ts";

/** Lets trackers look on at a run: `train({ …, callbacks: [trackWith([tensorBoardTracker()])] })`. */
export function trackWith(
  trackers: readonly Tracker[],
  options: GuardOptions = { warn: console.warn },
): TrainingCallbacks {
  const guarded = guardTrackers(trackers, options);
  return {
    name: "trackers",
    async onStart({ id, dir, config, algorithm, resumedAfter }) {
      await guarded.start({
        id,
        dir: dir ?? ".",
        config: { ...config, algorithm },
        ...(resumedAfter === undefined ? {} : { resumedAfter }),
      });
    },
    async onStepEnd({ step, metrics, timing }) {
      const { step: _, ...numbers } = metrics;
      await guarded.log(step, {
        ...numbers,
        "time/rolloutMs": timing.rolloutMs,
        "time/updateMs": timing.updateMs,
        "time/tokensPerSecond": timing.tokensPerSecond,
      });
    },
    async onEvaluation({ step, set, reward, parts }) {
      await guarded.log(step, {
        [`eval/${set}/reward`]: reward.mean,
        [`eval/${set}/low`]: reward.low,
        [`eval/${set}/high`]: reward.high,
        ...Object.fromEntries(Object.entries(parts).map(([name, value]) => [`eval/${set}/${name}`, value])),
      });
    },
    async onEnd({ status, steps, reason }) {
      await guarded.finish({
        status: status === "stopped-early" ? "finished" : status,
        steps,
        ...(status === "failed" && reason !== undefined ? { error: reason } : {}),
      });
    },
  };
}
