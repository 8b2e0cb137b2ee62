import { isReply, type Turn } from "./trajectory.ts";

export interface ToolCounts {
  calls: number;
  /** Calls that came to nothing, by the kind of failure. */
  failures: Record<string, number>;
}

/** What the agent called in these turns, and how that went. */
export function countTools(turns: readonly Turn[]): ToolCounts {
  const counts: ToolCounts = { calls: 0, failures: {} };
  for (const turn of turns) {
    if (isReply(turn)) counts.calls += turn.tool_calls?.length ?? 0;
    const kind = turn.role === "tool" && !turn.given ? turn.metadata?.toolFailure : undefined;
    if (typeof kind === "string") counts.failures[kind] = (counts.failures[kind] ?? 0) + 1;
  }
  return counts;
}

/** True when a tool was called and no call came to anything. A call that nobody answered has not failed. */
export function everyCallFailed(turns: readonly Turn[]): boolean {
  const results = turns.filter(({ role, given }) => role === "tool" && !given);
  return results.length > 0 && results.every(({ metadata }) => typeof metadata?.toolFailure === "string");
}
