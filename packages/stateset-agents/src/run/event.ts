/** What happens in a run, as data. events.jsonl holds it in order; callbacks are told of it as it happens. */
import type { Estimate } from "../evaluation/estimate.ts";
import type { ScenarioScore } from "../evaluation/evaluate.ts";
import type { UpdateEvent } from "../learning/learn.ts";
import type { Metrics } from "./metrics.ts";

/** The numbers of one step; metrics.jsonl has them with those of the evaluation that followed. Same seed, same bytes: nothing here depends on the clock. */
export type StepMetrics = { step: number } & Metrics;

/** What depends on the clock or on the machine, of one step. */
export interface StepTiming {
  step: number;
  /** Sampling conversations; 0 for learners that sample none. */
  rolloutMs: number;
  updateMs: number;
  /** Tokens sampled per second of rollout, or learnt from per second of update. */
  tokensPerSecond: number;
  /**
   * Share of the tokens of its updates' passes that were not computed again, because sampling had. It follows from the memory there was. Missing
   * where nothing was learnt, and where the engine does not count it.
   */
  reused?: number;
}

/** A line of timing.jsonl, which is apart from the metrics because it depends on the clock and the machine. */
export interface TimingRecord extends StepTiming {
  /** Callbacks, evaluation and checkpoint of the step. */
  otherMs: number;
}

/** Conversations on held-out scenarios. */
export interface RewardEvaluation {
  step: number;
  /** "selection" chooses the best checkpoint, "report" is only looked at before and after. */
  set: "selection" | "report";
  /** The step whose weights were measured, where that is not `step`: the last evaluation is of those the run ends with. */
  weightsOf?: number;
  reward: Estimate;
  /** Mean of every part of the reward's breakdown. */
  parts: Record<string, number>;
  scenarios: ScenarioScore[];
  /** Conversations in which the environment threw at a reply: they are in the numbers, with the score of `onFailure`. */
  failed: number;
  /** Conversations that came to nothing and are in no number. */
  lost: number;
  /** What the first few failures said. */
  failures: string[];
  /** In how many conversations a part of the reward failed, by its name; these are not in the part's mean. */
  partFailures?: Record<string, number>;
}

/** Held-out data: a loss, an accuracy, … */
export interface DataEvaluation {
  step: number;
  set: "held-out";
  numbers: Record<string, number>;
}

export type EvaluationResult = RewardEvaluation | DataEvaluation;

export type WarningKind =
  | "environment-failed"
  | "hook-failed"
  | "reward-failed"
  | "reward-part-failed"
  | "reward-unguarded"
  | "no-reward"
  | "context-full"
  | "group-dropped"
  | "evaluation-failed"
  | "not-finite"
  | "data-cut"
  | "checkpoint-damaged"
  | "callback-failed"
  | "tracker-failed"
  | "live-failed"
  | "restarted"
  | "worker-lost"
  | "options-changed"
  | "options-unusual"
  | "no-reference"
  | "sampling-mismatch"
  | "sampling-overridden"
  | "first-ratio"
  | "held-out"
  | "stub";

export interface RunWarning {
  step: number;
  kind: WarningKind;
  message: string;
}

export type VerdictKind =
  | "noise"
  | "collapse"
  | "divergence"
  | "critic"
  | "reward-hacking"
  | "lost-scenarios"
  | "no-signal"
  | "length-drift"
  | "repetition"
  | "too-easy"
  | "too-hard";

/** What is wrong with the health of a run. */
export interface Verdict {
  kind: VerdictKind;
  severity: "note" | "warning" | "critical";
  /** The step it was first said at. */
  step: number;
  /** What is wrong, with the numbers that show it. */
  message: string;
  /** What to do about it. */
  advice: string;
  /** For lost-scenarios, too-easy and too-hard: which, when it was said. */
  scenarioIds?: string[];
}

/** One change of one setting while the run went on, with the reason in words. */
export interface Adjustment {
  step: number;
  setting: "learningRateScale" | "klCoefficient" | "temperature" | `scenarioWeights.${string}`;
  from: number;
  to: number;
  reason: string;
}

/** The weights a run ended with, which are those in final/. */
export interface FinalWeights {
  /** The step that left them; 0: those the run began with. */
  step: number;
  /** In words: why these. */
  why: string;
  /** How many held-out scenarios they were chosen on; undefined where nothing was chosen. */
  scenarios?: number;
}

export interface RunEnd {
  status: "finished" | "stopped-early" | "interrupted" | "failed";
  /** Steps done in all. */
  steps: number;
  /** In words, unless it simply finished. */
  reason?: string;
  /** Of a run of train() that came to its end. */
  weights?: FinalWeights;
}

/** What each kind of event says beside its step. */
interface Facts {
  start: { learner: string; steps: number };
  rollouts: {
    requested: number;
    completed: number;
    failed: number;
    lost: number;
    refusedGroups: number;
    droppedGroups: number;
    replies: number;
    sampledTokens: number;
  };
  update: UpdateEvent;
  step: { metrics: StepMetrics };
  evaluation: Omit<RewardEvaluation, "step" | "scenarios"> | Omit<DataEvaluation, "step">;
  checkpoint: { best: boolean };
  warning: Omit<RunWarning, "step">;
  verdict: Omit<Verdict, "step">;
  adjustment: Omit<Adjustment, "step">;
  end: Omit<RunEnd, "steps">;
}

export type EventType = keyof Facts;
export type FactOf<T extends EventType> = Facts[T];

/** An evaluation as events.jsonl has it. */
export type EvaluationRecord = { step: number } & FactOf<"evaluation">;

/**
 * One line of events.jsonl. Numbers that are not finite are null there. `seq` counts the lines from 0; it is null on what is only said and
 * not written, because it depends on how often the run was taken up again.
 */
export type RunEvent = { [T in EventType]: { seq: number | null; step: number; type: T } & Facts[T] }[EventType];
