export type { RunCallbacks, RunStart, StepEnd, StopRun } from "./callbacks.ts";
export type { LearnerKind, RunConfig } from "./config.ts";
export type {
  DataEvaluation,
  EvaluationRecord,
  EvaluationResult,
  RewardEvaluation,
  RunEnd,
  RunEvent,
  RunWarning,
  StepMetrics,
  StepTiming,
  WarningKind,
} from "./event.ts";
export type { RunSummary } from "./summary.ts";
