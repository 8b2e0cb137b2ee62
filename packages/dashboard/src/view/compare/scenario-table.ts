/** Scenarios of several runs, and how far each run is from the one the others are held against. */
import type { CompareData } from "../../../../stateset-agents/src/dashboard/api/index.ts";

export const scenarioOrders = ["apart", "better", "worse", "name"] as const;
export type ScenarioOrder = (typeof scenarioOrders)[number];

export const scenarioOrderNames: Readonly<Record<ScenarioOrder, string>> = {
  apart: "farthest apart first",
  better: "best against the base first",
  worse: "worst against the base first",
  name: "by name",
};

export interface ScenarioValues {
  id: string;
  values: readonly (number | null)[];
  /** From the base; null where one of the two has none, where they were not measured alike, and of the base itself. */
  differences: readonly (number | null)[];
}

const byName = new Intl.Collator("en", { numeric: true }).compare;

/** Of each run, why it cannot be held against the base; null where it can. */
export function unlikeBase({ runs, pairs }: Pick<CompareData, "runs" | "pairs">, base: string): Unlike[] {
  return runs.map(({ key }) => {
    const pair = pairs.find(({ a, b }) => (a === base && b === key) || (a === key && b === base));
    return pair?.unlike ?? null;
  });
}

type Unlike = CompareData["pairs"][number]["unlike"];

export function scenarioTable(
  scenarios: CompareData["scenarios"],
  base: number,
  unlike: readonly Unlike[] = [],
): ScenarioValues[] {
  return scenarios.map(({ id, values }) => {
    const from = values[base] ?? null;
    const against = (value: number | null, i: number) =>
      i === base || unlike[i] || value === null || from === null ? null : value - from;
    return { id, values, differences: values.map(against) };
  });
}

/** They come with those first that are farthest apart. What has no difference stands last. */
export function orderedScenarios(table: readonly ScenarioValues[], order: ScenarioOrder, text = ""): ScenarioValues[] {
  const wanted = text.trim().toLowerCase();
  const kept = wanted ? table.filter(({ id }) => id.toLowerCase().includes(wanted)) : [...table];
  if (order === "apart") return kept;
  if (order === "name") return kept.sort((a, b) => byName(a.id, b.id));
  const sign = order === "better" ? -1 : 1;
  const extreme = ({ differences }: ScenarioValues) => {
    const known = differences.filter((one) => one !== null);
    if (known.length === 0) return Number.POSITIVE_INFINITY;
    return sign * (order === "better" ? Math.max(...known) : Math.min(...known));
  };
  return kept.sort((a, b) => compareNumbers(extreme(a), extreme(b)) || byName(a.id, b.id));
}

/** Infinities have no difference. */
const compareNumbers = (a: number, b: number) => (a === b ? 0 : a < b ? -1 : 1);

/** How many scenarios each run won against the base, and lost. */
export function tally(table: readonly ScenarioValues[], run: number): { better: number; worse: number; same: number } {
  const counts = { better: 0, worse: 0, same: 0 };
  for (const { differences } of table) {
    const difference = differences[run];
    if (difference === null || difference === undefined) continue;
    counts[difference > 0 ? "better" : difference < 0 ? "worse" : "same"]++;
  }
  return counts;
}
