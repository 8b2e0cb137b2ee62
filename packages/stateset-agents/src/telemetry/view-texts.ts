/** What the live view and the plain lines both say of a run. */
import type { Colors } from "picocolors/types";
import type { RunStart, StepEnd } from "../run/callbacks.ts";
import { settingsChanged } from "../run/changed-settings.ts";
import type { DataEvaluation, EvaluationResult } from "../run/event.ts";
import { estimateText, number } from "./format.ts";

/** The run's name, and what learns how. */
export function nameLine(run: RunStart, title: string | undefined, colors: Colors): string {
  const { profile, seed } = run.settings;
  const facts = [title, run.learner, profile, seed === undefined ? undefined : `seed ${seed}`];
  return `${colors.bold(run.id)}  ${colors.dim(facts.filter((fact) => fact !== undefined).join(" · "))}`;
}

/** Said elsewhere, or chosen for the model rather than by the user. */
const notChosen = ["algorithm", "seed", "profile", "learningRate", "valueLearningRate"];

/** What differs from the defaults of the library and of the algorithm, as "path value". */
export function changedSettings({ settings, defaults }: Pick<RunStart, "settings" | "defaults">): string[] {
  const changed = settingsChanged(settings, defaults)
    .filter(({ path }) => !notChosen.includes(path))
    .map(({ path, value }) => `${path} ${typeof value === "string" ? value : JSON.stringify(value)}`);
  const { learningRate } = settings;
  return typeof learningRate === "number" ? [...changed, `learningRate ${learningRate.toPrecision(2)}`] : changed;
}

/** From the reference, or else what the step moved; nothing where one update a rollout could not see that. */
export function distance({ kl, approxKl, trustRegionKl }: StepEnd["metrics"]): [name: string, value: string][] {
  const moved = approxKl ?? trustRegionKl;
  if (kl !== undefined) return [["kl", number(kl)]];
  return moved === undefined ? [] : [["step kl", number(moved)]];
}

/** Of held-out data also what it was at first; how much data there is was said then. */
export function evaluationText(evaluation: EvaluationResult, before: DataEvaluation | undefined): string {
  if (evaluation.set !== "held-out") return `reward ${estimateText(evaluation.reward)}`;
  const isCount = (value: number) => Number.isInteger(value) && value > 1;
  const shown = (value: number) => (isCount(value) ? String(value) : number(value));
  return Object.entries(evaluation.numbers)
    .flatMap(([name, value]) => {
      const first = before === evaluation ? undefined : before?.numbers[name];
      if (isCount(value) && first === value) return [];
      return [`${name} ${first === undefined || first === value ? "" : `${shown(first)} → `}${shown(value)}`];
    })
    .join("  ");
}

export function atStep(evaluation: EvaluationResult): string {
  const of = evaluation.set === "held-out" ? undefined : evaluation.weightsOf;
  return `at step ${evaluation.step}${of === undefined ? "" : ` (weights of step ${of})`}`;
}
