import type { RewardResult } from "./trajectory.ts";

/** A part of a reward that failed and did not fail the whole: the others shared its weight, or a score stood in for it. */
export interface PartFailure {
  /** Its key in the breakdown; parts of parts as "outer.inner". */
  name: string;
  message: string;
}

/** What CompositeReward and MultiObjectiveReward noted in the metadata, also inside each other. */
export function partFailuresOf(metadata: RewardResult["metadata"]): PartFailure[] {
  const own = Array.isArray(metadata?.failures) ? metadata.failures.filter(isFailure) : [];
  const parts = Object.entries((metadata?.parts ?? {}) as Record<string, RewardResult["metadata"]>);
  const inner = parts.flatMap(([part, noted]) =>
    typeof noted === "object" && noted !== null
      ? partFailuresOf(noted).map(({ name, message }) => ({ name: `${part}.${name}`, message }))
      : [],
  );
  return [...own.map(({ name, message }) => ({ name, message })), ...inner];
}

/** The breakdown without the scores that only stand in for parts that failed: those would hide in a mean that they failed. */
export function measuredParts({ breakdown, metadata }: RewardResult): Record<string, number> {
  const failed = partFailuresOf(metadata).map(({ name }) => name);
  return failed.length === 0
    ? breakdown
    : Object.fromEntries(Object.entries(breakdown).filter(([name]) => !failed.includes(name)));
}

/** How often each part failed, by name. */
export function countByPart(failures: readonly PartFailure[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { name } of failures) counts[name] = (counts[name] ?? 0) + 1;
  return Object.fromEntries(Object.entries(counts).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function isFailure(value: unknown): value is PartFailure {
  const { name, message } = (value ?? {}) as Partial<PartFailure>;
  return typeof name === "string" && typeof message === "string";
}
