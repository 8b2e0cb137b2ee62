export {
  type Adjustment,
  type AutoAdjust,
  type AutoAdjustHooks,
  type AutoAdjustOptions,
  autoAdjust,
} from "../auto-adjust.ts";
export { DiagnosticsMonitor, type DiagnosticsOptions, type MonitorState } from "./monitor.ts";
export { readSignals, type StepObservation, type StepSignals } from "./signals.ts";
export type { Verdict, VerdictKind } from "./verdicts.ts";
export { type HealthWatch, watchHealth } from "./watch.ts";
