import type { Turn } from "./trajectory.ts";

/** What answers the calls of the reply at `index`, by their ids. These are only known to differ within a reply. */
export function resultsOfCalls(turns: readonly Turn[], index: number): ReadonlyMap<string | undefined, Turn> {
  const next = turns.findIndex(({ role }, i) => i > index && role === "assistant");
  const results = turns.slice(index + 1, next < 0 ? undefined : next).filter(({ role }) => role === "tool");
  // Of two with one id the first counts.
  return new Map(results.reverse().map((result) => [result.tool_call_id, result]));
}
