/** A task with a state as it ended: what its check looks at. */
import { resultsOfCalls } from "../../conversation/call-results.ts";
import type { Turn } from "../../conversation/trajectory.ts";
import { isReply } from "../../conversation/trajectory.ts";
import type { ToolFailure } from "../../tool/run-calls.ts";
import type { StatefulTask } from "./stateful-task.ts";
import type { AnyState, TaskWrite } from "./task-tool.ts";

/** A call of the agent. */
export interface TaskCall {
  /** The turn that made it. */
  turn: number;
  name: string;
  /** Undefined where they cannot be read. */
  arguments: unknown;
  /** Why it came to nothing, where it did. */
  failure?: ToolFailure | "unanswered";
}

export interface FinalTask<D = AnyState> {
  task: StatefulTask<D>;
  /** In the end. */
  state: D;
  /** In the beginning. */
  initial: D;
  /** Calls that changed the state, in order. */
  writes: readonly TaskWrite[];
  /** All calls, in order. */
  calls: readonly TaskCall[];
  /** What the agent said to the user, one text a turn; replies without words are left out. */
  said: readonly string[];
  turns: readonly Turn[];
  /** Whether the user was done, or the replies ran out. */
  ended: "done" | "max-turns";
}

export function callsIn(turns: readonly Turn[]): TaskCall[] {
  return turns.flatMap((turn, index) => {
    if (!isReply(turn) || !turn.tool_calls) return [];
    const results = resultsOfCalls(turns, index);
    return turn.tool_calls.map(({ id, function: { name, arguments: written } }): TaskCall => {
      const result = results.get(id);
      const failure = result ? (result.metadata?.toolFailure as ToolFailure | undefined) : "unanswered";
      return { turn: index, name, arguments: parsed(written), ...(failure !== undefined && { failure }) };
    });
  });
}

export function wordsIn(turns: readonly Turn[]): string[] {
  return turns.filter((turn) => isReply(turn) && turn.content.trim() !== "").map(({ content }) => content);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
