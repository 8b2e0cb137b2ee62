/** Evaluations of one set as the Evaluation view shows them: over steps, and before and after. */
import type { EvaluationData, EvaluationsData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import type { ScenarioChange } from "./scenario-order.ts";

export type SetName = EvaluationData["set"];

/** What is only looked at comes first: what chooses the checkpoint flatters it. */
const setOrder: readonly SetName[] = ["report", "selection", "held-out"];

export const setWords: Readonly<Record<SetName, { name: string; meaning: string }>> = {
  report: {
    name: "report",
    meaning: "Scenarios that are only looked at: nothing was learnt from them or chosen by them.",
  },
  selection: {
    name: "selection",
    meaning: "Scenarios that chose the best checkpoint, so that its number flatters it.",
  },
  "held-out": { name: "held-out data", meaning: "Data that nothing was learnt from." },
};

export function setsOf({ evaluations }: EvaluationsData): SetName[] {
  return setOrder.filter((set) => evaluations.some((one) => one.set === set));
}

/** In the order of their steps; of two at one step the later one, which is of the weights the run ends with. */
export function courseOf({ evaluations }: EvaluationsData, set: SetName): EvaluationData[] {
  const byStep = new Map<number, EvaluationData>();
  for (const one of evaluations) if (one.set === set) byStep.set(one.step, one);
  return [...byStep.values()].sort((a, b) => a.step - b.step);
}

/** Before and after of each scenario; where there is one evaluation so far, that one is "after". */
export function scenariosOf(data: EvaluationsData, set: SetName): ScenarioChange[] {
  const change = data.changes.find((one) => one.set === set);
  if (change) return change.scenarios;
  const last = courseOf(data, set).at(-1);
  return (last?.scenarios ?? []).map(({ id, mean, samples, failed }) => ({
    id,
    before: { mean: null, count: 0 },
    after: { mean, count: samples },
    change: null,
    failed,
  }));
}

export interface PartChange {
  name: string;
  before: number | null;
  after: number | null;
}

/** Of the first and the last evaluation; with one of them, before is not known. */
export function beforeAfter(course: readonly EvaluationData[], of: "parts" | "numbers"): PartChange[] {
  const [first, last] = [course[0], course.at(-1)];
  if (!first || !last) return [];
  const names = new Set([...Object.keys(first[of]), ...Object.keys(last[of])]);
  return [...names].map((name) => ({
    name,
    before: first === last ? null : (first[of][name] ?? null),
    after: last[of][name] ?? null,
  }));
}

/** The values of one part or number over steps, for a chart; steps without it are left out. */
export function overSteps(course: readonly EvaluationData[], of: "parts" | "numbers", name: string) {
  const having = course.filter((one) => Object.hasOwn(one[of], name));
  return { name, x: having.map(({ step }) => step), y: having.map((one) => one[of][name] ?? Number.NaN) };
}

/** What failures said, each once, with how often it was said. */
export function failuresOf(course: readonly EvaluationData[]): { message: string; steps: number[] }[] {
  const said = new Map<string, number[]>();
  for (const { step, failures } of course) {
    for (const message of new Set(failures)) said.set(message, [...(said.get(message) ?? []), step]);
  }
  return [...said].map(([message, steps]) => ({ message, steps }));
}
