import type { EvaluationRecord, RunEnd, RunWarning, StepMetrics } from "./event.ts";
import type { Run } from "./run.ts";

/** What came of a run, whatever learnt in it. `Settings` are the learner's own, `Evaluation` is how it is evaluated. */
export interface RunSummary<Settings = Readonly<Record<string, unknown>>, Evaluation = EvaluationRecord>
  extends RunEnd {
  id: string;
  /** The run's folder, which `resumeFrom` takes; undefined when nothing was kept. */
  dir: string | undefined;
  /** Where what was learnt is, in Hugging Face layout; undefined when the run was interrupted or nothing was kept. */
  finalDir: string | undefined;
  /** Resolved: every setting is there. */
  config: Settings;
  /** One record a step; of a resumed run also those before. Step 0 holds the evaluation before training. */
  metrics: StepMetrics[];
  /** The step that did best on what is held out: the highest reward, or the lowest loss. */
  best: { step: number; score: number } | null;
  /** Before the first step and after the last. */
  evaluation: { before: Evaluation; after: Evaluation | undefined } | undefined;
  /** All of them in order; of a resumed run also those before. */
  evaluations: EvaluationRecord[];
  warnings: RunWarning[];
  /** The policy is a stub: nothing was learnt. */
  stub: boolean;
}

type Known = "id" | "dir" | "metrics" | "evaluations" | "warnings" | keyof RunEnd;

export function summaryOf<S, E>(
  run: Pick<Run, "id" | "dir" | "records" | "evaluations" | "warnings">,
  end: RunEnd,
  own: Omit<RunSummary<S, E>, Known>,
): RunSummary<S, E> {
  const { id, dir, records: metrics, evaluations, warnings } = run;
  return { ...end, id, dir, ...own, metrics, evaluations, warnings };
}
