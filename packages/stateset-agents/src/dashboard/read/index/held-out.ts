/** The first and the last evaluation of each set, for lists: before learning, and after as much of it as there was. */
import type { EstimateData } from "../../api/index.ts";

/** By set. */
export type HeldOutEnds = Record<string, { before: EstimateData | null; after: EstimateData | null }>;

/** Of an event of events.jsonl; others than evaluations say nothing here. */
export function addEvaluation(ends: HeldOutEnds, event: Readonly<Record<string, unknown>>): void {
  const { type, set, step } = event;
  if (type !== "evaluation" || typeof set !== "string") return;
  const estimate = set === "held-out" ? lossOf(event.numbers) : estimateOf(event.reward);
  if (!estimate) return;
  ends[set] ??= { before: null, after: null };
  if (step === 0) ends[set].before ??= estimate;
  else ends[set].after = estimate;
}

/** The scenarios that are only looked at go first, then those that choose, then data. */
export function heldOutOf(
  ends: HeldOutEnds,
): { metric: string; before: EstimateData | null; after: EstimateData | null } | null {
  for (const [set, metric] of [
    ["report", "report/reward"],
    ["selection", "selection/reward"],
    ["held-out", "held-out/loss"],
  ] as const) {
    if (ends[set]) return { metric, ...ends[set] };
  }
  return null;
}

export function estimateOf(value: unknown): EstimateData | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { mean, low, high, count } = value as Record<string, unknown>;
  if (typeof mean !== "number" && mean !== null) return undefined;
  return {
    mean,
    count: typeof count === "number" ? count : 0,
    ...(typeof low === "number" && typeof high === "number" && { low, high }),
  };
}

function lossOf(numbers: unknown): EstimateData | undefined {
  const loss = (numbers as { loss?: unknown } | null | undefined)?.loss;
  return typeof loss === "number" || loss === null ? { mean: loss, count: 0 } : undefined;
}
