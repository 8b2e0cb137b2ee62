export type { RunCallbacks, RunStart, StepEnd, StopRun } from "./callbacks.ts";
export type { LearnerKind, RunConfig } from "./config.ts";
export type {
  DataEvaluation,
  EvaluationResult,
  RewardEvaluation,
  RunEnd,
  RunEvent,
  RunWarning,
  StepMetrics,
  StepTiming,
  WarningKind,
} from "./event.ts";
export type { MetricName, Metrics } from "./metrics.ts";
