export type { Adjustment, Verdict, VerdictKind } from "../../run/event.ts";
export { type AutoAdjust, type AutoAdjustOptions, autoAdjust } from "../auto-adjust.ts";
export { DiagnosticsMonitor, type DiagnosticsOptions, type FindingRecord, type MonitorState } from "./monitor.ts";
export { type Measured, readSignals, type ScenarioVisit, type StepObservation, type StepSignals } from "./signals.ts";
export { type HealthWatch, watchHealth } from "./watch.ts";
