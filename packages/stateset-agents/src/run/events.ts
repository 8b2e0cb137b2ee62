import type { Estimate } from "../evaluation/bootstrap.ts";

/** The numbers of one step, as metrics.jsonl has them. Same seed, same bytes: nothing here depends on the clock. */
export type StepMetrics = { step: number } & Record<string, number>;

/** Wall-clock numbers of one step, kept apart in timing.jsonl. */
export interface StepTiming {
  step: number;
  rolloutMs: number;
  updateMs: number;
  /** Evaluation and checkpoint of this step. */
  otherMs: number;
  /** Sampled tokens per second of rollout. */
  tokensPerSecond: number;
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
