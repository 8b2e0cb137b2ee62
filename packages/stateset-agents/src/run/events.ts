import type { Estimate } from "../evaluation/bootstrap.ts";

/** The numbers of one step; metrics.jsonl has them with those of the evaluation that followed. Same seed, same bytes: nothing here depends on the clock. */
export type StepMetrics = { step: number } & Record<string, number>;

/** Wall-clock numbers of one step. */
export interface StepTiming {
  step: number;
  rolloutMs: number;
  updateMs: number;
  /** Sampled tokens per second of rollout. */
  tokensPerSecond: number;
}

/** A line of timing.jsonl, which is apart from the metrics because it depends on the clock. */
export interface TimingRecord extends StepTiming {
  /** Callbacks, evaluation and checkpoint of the step. */
  otherMs: number;
}

export interface EvaluationResult {
  step: number;
  /** "selection" chooses the best checkpoint, "report" is only looked at before and after. */
  set: "selection" | "report";
  reward: Estimate;
  /** Mean of every part of the reward's breakdown. */
  parts: Record<string, number>;
  /** Conversations that failed and are not in the numbers. */
  failed: number;
  /** What the first few failures said. */
  failures: string[];
}

export type WarningKind =
  | "environment-failed"
  | "hook-failed"
  | "reward-failed"
  | "group-dropped"
  | "evaluation-failed"
  | "not-finite"
  | "checkpoint-damaged"
  | "callback-failed"
  | "tracker-failed"
  | "restarted"
  | "options-changed"
  | "options-unusual"
  | "no-reference"
  | "sampling-mismatch"
  | "first-ratio"
  | "stub";

export interface TrainingWarning {
  step: number;
  kind: WarningKind;
  message: string;
}

export type RunEnd = {
  status: "finished" | "stopped-early" | "interrupted" | "failed";
  /** Steps done in all. */
  steps: number;
  /** In words, unless it simply finished. */
  reason?: string;
};
