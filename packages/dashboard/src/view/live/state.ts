/** What the Live view knows, and how each thing that happens changes it. */
import type {
  LiveConversation,
  LiveEvents,
  ProblemData,
  RunRow,
} from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { cutBack, type Gathered, gather, regather, without } from "./gather.ts";

export interface LiveState {
  /** The run that is watched; undefined: every one that is running. */
  only: string | undefined;
  rows: ReadonlyMap<string, RunRow>;
  conversations: Gathered;
  /** Runs whose conversations are being asked for, and what came meanwhile: the answer may be older than that. */
  asking: ReadonlyMap<string, readonly LiveConversation[]>;
  /** Runs that were shown and are no longer there. */
  gone: readonly string[];
  problems: ReadonlyMap<string, readonly ProblemData[]>;
}

export type Happened =
  | { kind: "rows"; rows: readonly RunRow[] }
  | { kind: "ask"; run: string }
  | { kind: "answer"; run: string; conversations: readonly LiveConversation[]; problems: readonly ProblemData[] }
  | { [K in "runs" | "steps" | "conversations"]: { kind: K; event: LiveEvents[K] } }[
      | "runs"
      | "steps"
      | "conversations"];

export function emptyState(only: string | undefined): LiveState {
  return {
    only,
    rows: new Map(),
    conversations: new Map(),
    asking: new Map(),
    gone: [],
    problems: new Map(),
  };
}

export function happen(state: LiveState, happened: Happened): LiveState {
  switch (happened.kind) {
    case "rows":
      return withRows(state, happened.rows);
    case "runs": {
      const { rows, gone } = happened.event;
      const lost = gone.filter((run) => state.rows.has(run));
      const left = withRows(state, rows);
      if (lost.length === 0) return left;
      return {
        ...left,
        rows: new Map([...left.rows].filter(([run]) => !lost.includes(run))),
        conversations: without(left.conversations, lost),
        gone: [...new Set([...left.gone, ...lost])],
      };
    }
    case "steps": {
      const { run, step, cut } = happened.event;
      return cut ? { ...state, conversations: cutBack(state.conversations, run, step) } : state;
    }
    case "conversations": {
      const { run, conversations } = happened.event;
      if (!isWatched(state, run)) return state;
      const asked = state.asking.get(run);
      const asking = asked ? new Map(state.asking).set(run, [...asked, ...conversations]) : state.asking;
      return { ...state, asking, conversations: gather(state.conversations, conversations) };
    }
    case "ask":
      return !isWatched(state, happened.run)
        ? state
        : { ...state, asking: new Map(state.asking).set(happened.run, []) };
    case "answer": {
      const { run, conversations, problems } = happened;
      if (!isWatched(state, run)) return state;
      const asking = new Map(state.asking);
      const came = asking.get(run) ?? [];
      asking.delete(run);
      return {
        ...state,
        asking,
        conversations: gather(regather(state.conversations, run, conversations), came),
        problems: new Map(state.problems).set(run, problems),
      };
    }
  }
}

/** Runs that train now are taken in; one that is shown stays when it ends, so that its last conversations can be read. */
function withRows(state: LiveState, rows: readonly RunRow[]): LiveState {
  const own = rows.filter(({ key, state: is }) =>
    state.only === undefined ? is === "running" || state.rows.has(key) : key === state.only,
  );
  if (own.length === 0) return state;
  const now = new Map(state.rows);
  for (const row of own) now.set(row.key, row);
  return { ...state, rows: now, gone: state.gone.filter((run) => !now.has(run)) };
}

function isWatched({ only, rows }: LiveState, run: string): boolean {
  return only === undefined ? rows.has(run) : run === only;
}
