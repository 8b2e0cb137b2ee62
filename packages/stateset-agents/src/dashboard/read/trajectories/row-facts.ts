/** What lists say of a conversation. */
import type { ConversationRecord } from "../../../conversation/record.ts";
import type { TrajectoryRow } from "../../api/index.ts";
import { groupKey, type StepKey, trajectoryKey } from "../keys.ts";

/** All but what depends on the address it is asked at. */
export type RowFacts = Omit<TrajectoryRow, "key" | "run" | "step" | "group">;

const snippetLength = 160;

export function rowFacts(record: ConversationRecord, tokensKept: boolean): RowFacts {
  const { messages, chains, reward, failure, turns = {} } = record;
  const said = messages.filter(({ role }, i) => role === "assistant" && !turns[i]?.given);
  return {
    id: text(record.id) ?? "",
    scenario: text(record.scenarioId),
    groupId: text(record.group),
    reward: number(reward?.score),
    breakdown: Object.fromEntries(
      Object.entries(reward?.breakdown ?? {}).map(([name, value]) => [name, number(value)]),
    ),
    ended: text(record.ended),
    failure: failureOf(failure),
    leftOut: oneOf(["lost", "dropped", "refused"], record.leftOut),
    side: oneOf(["chosen", "rejected"], record.side),
    replies: said.length,
    tokens: chains.reduce((sum, { length }) => sum + length, 0),
    hasTokens: tokensKept && chains.some(({ offset }) => offset !== undefined),
    snippet: snippetOf(said.at(-1)?.content ?? messages.at(-1)?.content ?? ""),
  };
}

export function rowOfLine(facts: RowFacts, place: StepKey, line: number): TrajectoryRow {
  const { run, step } = place;
  const { groupId } = facts;
  const key = trajectoryKey({ ...place, line });
  return { ...facts, key, run, step, group: groupId === null ? null : groupKey({ ...place, group: groupId }) };
}

function failureOf(failure: unknown): string | null {
  if (typeof failure === "string") return failure;
  const message = (failure as { message?: unknown } | undefined)?.message;
  return typeof message === "string" ? message : failure ? JSON.stringify(failure) : null;
}

/** Not in the middle of a character. */
function snippetOf(content: string): string {
  if (content.length <= snippetLength) return content;
  return `${content.slice(0, snippetLength).replace(/[\uD800-\uDBFF]$/, "")}…`;
}

const text = (value: unknown) => (typeof value === "string" ? value : null);
const number = (value: unknown) => (typeof value === "number" && Number.isFinite(value) ? value : null);

function oneOf<T extends string>(known: readonly T[], value: unknown): T | null {
  return known.find((one) => one === value) ?? null;
}
