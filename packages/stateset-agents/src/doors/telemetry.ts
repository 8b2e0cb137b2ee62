/** `stateset-agents/telemetry`: watching and reading runs. Trackers, the live view, alerts, traces, diagnostics, statistics. */

export type { RunAlert, ServerAlert } from "../alert.ts";
export type { Failure } from "../conversation/failure.ts";
export {
  EarlyStopping,
  type EarlyStoppingOptions,
  type EarlyStoppingState,
  type StopDecision,
} from "../evaluation/early-stopping.ts";
export { type Estimate, type EstimateOptions, estimateGroups, estimateMean } from "../evaluation/estimate.ts";
export { type PairedOptions, type PairedResult, pairedTest } from "../evaluation/paired-test.ts";
export type { UpdateEvent } from "../learning/learn.ts";
export type { RolloutReport } from "../rollout/report.ts";
export * from "../run/index.ts";
export { listRuns, type RunInfo, readRun } from "../run/read-run.ts";
export type { RunState } from "../run/status.ts";
export type { AlertKind } from "../telemetry/alerts.ts";
export * from "../telemetry/index.ts";
export { createLiveView, type LiveView, type LiveViewOptions, type ViewStream } from "../telemetry/live-view.ts";
export type { SpanAttributes, TracedSpan } from "../tracer.ts";
export type { TrainingCallbacks, TrainingStart, TrainingStepEnd } from "../training/callbacks.ts";
export type { TrainingControls } from "../training/controls.ts";
export * from "../training/diagnostics/index.ts";
export type { RewardRange } from "../training/diagnostics/progress.ts";
export type { DifficultyKind, ScenarioRecord } from "../training/diagnostics/scenario-difficulty.ts";
export type { HeldOutReward } from "../training/diagnostics/verdicts.ts";
