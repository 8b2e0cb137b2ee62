import { join } from "node:path";
import { writeFileAtomic } from "../../durable.ts";
import type { TrainingCallbacks } from "../callbacks.ts";
import { DiagnosticsMonitor, type DiagnosticsOptions, type MonitorState } from "./monitor.ts";
import type { Verdict } from "./verdicts.ts";

export interface HealthWatch extends TrainingCallbacks {
  readonly monitor: DiagnosticsMonitor;
}

/** Watches a run and says what is wrong with it, without changing anything. Verdicts also go to `<run>/diagnostics.jsonl`. */
export function watchHealth(
  options: DiagnosticsOptions & { onVerdict?: (verdict: Verdict) => void } = {},
): HealthWatch {
  const { onVerdict, ...rest } = options;
  const monitor = new DiagnosticsMonitor(rest);
  let dir: string | undefined;
  return {
    name: "diagnostics",
    monitor,
    onStart(run) {
      dir = run.dir;
      // Also when there is nothing to say yet: a killed run may have said more than its checkpoint knows.
      writeHealthLog(dir, monitor.verdicts);
    },
    onStepEnd({ step, metrics, groups }) {
      const fresh = monitor.observe({ step, metrics, groups });
      if (fresh.length > 0) writeHealthLog(dir, monitor.verdicts);
      for (const verdict of fresh) onVerdict?.(verdict);
    },
    state: () => monitor.state(),
    restore: (state) => monitor.restore(state as MonitorState),
  };
}

/**
 * Everything said and done so far, one JSON object a line, in the order of steps. Written whole each time, from what a
 * checkpoint holds, so that a resumed run ends with the same file as one that was never interrupted.
 */
export function writeHealthLog(
  dir: string | undefined,
  verdicts: readonly Verdict[],
  adjustments: readonly { step: number }[] = [],
): void {
  if (dir === undefined) return;
  const entries = [
    ...verdicts.map((verdict) => ({ type: "verdict", ...verdict })),
    ...adjustments.map((adjustment) => ({ type: "adjustment", ...adjustment })),
  ];
  entries.sort((a, b) => a.step - b.step);
  writeFileAtomic(join(dir, "diagnostics.jsonl"), entries.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
}
