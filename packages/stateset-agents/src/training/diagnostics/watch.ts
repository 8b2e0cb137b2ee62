import type { TrainingCallbacks } from "../callbacks.ts";
import { DiagnosticsMonitor, type DiagnosticsOptions, type MonitorState } from "./monitor.ts";

export interface HealthWatch extends TrainingCallbacks {
  readonly monitor: DiagnosticsMonitor;
}

/** Watches a run and says what is wrong with it (onVerdict, events.jsonl), without changing anything. */
export function watchHealth(options: DiagnosticsOptions = {}): HealthWatch {
  const monitor = new DiagnosticsMonitor(options);
  return {
    name: "diagnostics",
    monitor,
    async onStepEnd({ tell, ...step }) {
      for (const verdict of monitor.observe(step)) await tell({ type: "verdict", ...verdict });
    },
    onEvaluation: (evaluation) => monitor.observeEvaluation(evaluation),
    state: () => monitor.state(),
    restore: (state) => monitor.restore(state as MonitorState),
  };
}
