/** What a run can be filtered, sorted and grouped by: what its row says, its last numbers, and its settings by dotted path. */
import { differences } from "../../../run/differences.ts";
import type { RunRow } from "../../api/index.ts";
import type { IndexSummary } from "../index/summary.ts";
import type { JsonObject } from "../json-file.ts";

export type FieldValue = string | number | boolean | null | readonly string[];

/** What of a row has one value that can be compared. */
const rowFields = {
  id: ({ id }) => id,
  key: ({ key }) => key,
  state: ({ state }) => state,
  reason: ({ reason }) => reason,
  learner: ({ learner }) => learner,
  algorithm: ({ algorithm }) => algorithm,
  model: ({ model }) => model,
  seed: ({ seed }) => seed,
  step: ({ step }) => step,
  steps: ({ steps }) => steps,
  startedAt: ({ startedAt }) => startedAt,
  reward: ({ reward }) => reward,
  loss: ({ loss }) => loss,
  before: ({ heldOut }) => heldOut?.before?.mean ?? null,
  after: ({ heldOut }) => heldOut?.after?.mean ?? null,
  change: ({ heldOut }) => difference(heldOut?.before?.mean, heldOut?.after?.mean),
  tokensPerSecond: ({ tokensPerSecond }) => tokensPerSecond,
  tags: ({ tags }) => tags,
  note: ({ note }) => note,
  folder: ({ folder }) => folder + 1,
  problems: ({ problems }) => problems.length,
} as const satisfies Record<string, (row: RunRow) => FieldValue>;

function difference(before: number | null | undefined, after: number | null | undefined): number | null {
  return before == null || after == null ? null : after - before;
}

/** A run with all that can be asked of it. */
export interface FieldSource {
  row: RunRow;
  metrics: IndexSummary["metrics"];
  settings: ReadonlyMap<string, FieldValue>;
}

/** `settings.kl.coefficient`, `algorithm.epsilonLow`, … */
export function settingsOf(config: JsonObject | undefined): Map<string, FieldValue> {
  return new Map(differences({}, config ?? {}).map(({ path, b }) => [path, plainValue(b)]));
}

function plainValue(value: unknown): FieldValue {
  if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value;
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "string") return value;
  return value === null || value === undefined ? null : JSON.stringify(value);
}

/** Names of the settings are found without their first part, where nothing else has that name. */
const prefixes = ["", "settings.", "algorithm."];

/** Undefined: the run has no such thing. What was set goes before what was measured: a learning rate is the one that was chosen. */
export function fieldOf({ row, metrics, settings }: FieldSource, name: string): FieldValue | undefined {
  if (Object.hasOwn(rowFields, name)) return rowFields[name as keyof typeof rowFields](row);
  for (const prefix of prefixes) {
    const value = settings.get(prefix + name);
    if (value !== undefined) return value;
  }
  return metrics.find((one) => one.name === name)?.last;
}

/** Every name there is in these runs. */
export function fieldNames(sources: readonly FieldSource[]): string[] {
  const metrics = new Set(sources.flatMap((source) => source.metrics.map(({ name }) => name)));
  const settings = new Set(sources.flatMap((source) => [...source.settings.keys()]));
  return [...Object.keys(rowFields), ...[...metrics].sort(), ...[...settings].sort()];
}

/** Whether a name is one at all; a run may have it or not. */
export function isField(sources: readonly FieldSource[], name: string): boolean {
  return Object.hasOwn(rowFields, name) || sources.some((source) => fieldOf(source, name) !== undefined);
}
