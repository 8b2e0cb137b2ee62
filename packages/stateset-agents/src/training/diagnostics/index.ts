export type { Adjustment, Verdict, VerdictKind } from "../../run/event.ts";
export { type AutoAdjust, type AutoAdjustOptions, autoAdjust } from "../auto-adjust.ts";
export { DiagnosticsMonitor, type DiagnosticsOptions, type MonitorState } from "./monitor.ts";
export { readSignals, type StepObservation, type StepSignals } from "./signals.ts";
export { type HealthWatch, watchHealth } from "./watch.ts";
