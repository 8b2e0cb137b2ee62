import { withDeadline } from "../abort.ts";
import { messageOf } from "../error.ts";
import type { Metrics } from "./metrics.ts";
import type { RunState } from "./status.ts";

/**
 * Where the numbers of a run go besides its own files. A tracker gets the run once, then the numbers of each step and of each
 * evaluation (those of one step may come in several calls), then the end.
 * The run never waits long for one and never fails because of one: see `guardTrackers`.
 */
export interface Tracker {
  readonly name: string;
  start(run: TrackedRun): void | Promise<void>;
  log(step: number, metrics: Readonly<Metrics>): void | Promise<void>;
  finish(outcome: RunOutcome): void | Promise<void>;
}

export interface TrackedRun {
  id: string;
  /** The run's folder; trackers that write files do so below it. */
  dir: string;
  /** The resolved configuration. */
  config: Readonly<Record<string, unknown>>;
  /** The step the run goes on after, when it was resumed; what a tracker holds beyond it is void. */
  resumedAfter?: number;
}

export interface RunOutcome {
  status: "finished" | "failed" | "interrupted";
  /** Steps done in all. */
  steps: number;
  error?: string;
}

/** How a run ended, as tools know it: one that stopped early has done what it should, one that is no more was interrupted. */
export function outcomeOf(state: RunState): RunOutcome["status"] {
  if (state === "finished" || state === "stopped-early") return "finished";
  return state === "failed" ? "failed" : "interrupted";
}

/** What keeps a list from being one of trackers, in words. */
export function trackersProblem(value: unknown): string | undefined {
  if (!Array.isArray(value)) return "is no list of trackers";
  for (const [i, tracker] of value.entries()) {
    const missing = (["start", "log", "finish"] as const).find((name) => typeof tracker?.[name] !== "function");
    if (typeof tracker?.name !== "string") return `holds no tracker at [${i}]: it has no name`;
    if (missing !== undefined) return `holds no tracker at [${i}]: it has no ${missing}()`;
  }
  return undefined;
}

export interface GuardedTrackers extends Tracker {
  /** Failed calls by tracker name. */
  readonly failures: ReadonlyMap<string, number>;
}

export interface GuardOptions {
  /** Told once for each tracker that fails. */
  warn: (message: string) => void;
  /** A call that takes longer counts as failed. */
  timeoutMs?: number;
  /** After this many failures in a row a tracker is left alone. */
  giveUpAfter?: number;
}

/** Several trackers as one whose calls never reject: failures are counted, warned about once, and given up on in the end. */
export function guardTrackers(trackers: readonly Tracker[], options: GuardOptions): GuardedTrackers {
  const { warn, timeoutMs = 10_000, giveUpAfter = 5 } = options;
  const failures = new Map<string, number>();
  const inARow = new Map<Tracker, number>();

  const attempt = async (tracker: Tracker, what: string, call: () => void | Promise<void>): Promise<void> => {
    if ((inARow.get(tracker) ?? 0) >= giveUpAfter) return;
    try {
      await withDeadline(call, { timeoutMs });
      inARow.set(tracker, 0);
    } catch (error) {
      const count = (failures.get(tracker.name) ?? 0) + 1;
      failures.set(tracker.name, count);
      inARow.set(tracker, (inARow.get(tracker) ?? 0) + 1);
      if (count === 1)
        warn(`Tracker "${tracker.name}" failed in ${what}: ${messageOf(error)}. The run goes on without it.`);
    }
  };
  const each = async (what: string, call: (tracker: Tracker) => void | Promise<void>): Promise<void> => {
    await Promise.all(trackers.map((tracker) => attempt(tracker, what, () => call(tracker))));
  };
  return {
    name: "trackers",
    failures,
    start: (run) => each("start", (tracker) => tracker.start(run)),
    log: (step, metrics) => each("log", (tracker) => tracker.log(step, metrics)),
    finish: (outcome) => each("finish", (tracker) => tracker.finish(outcome)),
  };
}
