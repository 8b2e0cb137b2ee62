export type { RunCallbacks, RunProgress, RunStart, StepEnd, StopRun } from "./callbacks.ts";
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
export { exampleRecords, type LearntExample } from "./example-records.ts";
export type { MetricName, Metrics } from "./metrics.ts";
export type { RunSummary } from "./summary.ts";
export {
  type ChainTokens,
  type RecordedChain,
  type RecordedConversation,
  readTrajectories,
  type TrajectoryRecord,
  trajectorySteps,
  writeTrajectories,
} from "./trajectories.ts";
