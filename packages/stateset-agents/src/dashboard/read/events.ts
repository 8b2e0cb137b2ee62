/** The marks on a run's curves: what events.jsonl says beside the numbers of steps. */

import { messageOf } from "../../error.ts";
import { Recent } from "../../recent.ts";
import { pathIn, runFiles } from "../../run/layout.ts";
import type { EventsData, ProblemData } from "../api/index.ts";
import { type FileMark, readOn, stateOf } from "./index/growing-file.ts";
import { recordIn, scanEvents } from "./index/scan-events.ts";

type Event = EventsData["events"][number];

interface Log {
  mark: FileMark | undefined;
  events: Event[];
  problems: ProblemData[];
}

const mostProblems = 20;

export class EventLogs {
  /** As many as are compared at once: what is kept of one is little, and reading one again is megabytes. */
  readonly #logs = new Recent<Log>(64);

  async of(dir: string): Promise<EventsData> {
    const path = pathIn(dir, "events");
    let log = this.#logs.get(dir);
    const state = stateOf(path, log?.mark);
    if (!log || state === "gone" || state === "replaced") {
      log = this.#logs.set(dir, { mark: undefined, events: [], problems: [] });
    }
    try {
      if (state !== "gone" && state !== "same") await readMore(path, log);
    } catch (error) {
      const problem = { where: runFiles.events, message: `cannot be read: ${messageOf(error)}` };
      return { events: log.events, problems: [...log.problems, problem] };
    }
    return { events: log.events, problems: log.problems };
  }
}

async function readMore(path: string, log: Log): Promise<void> {
  let lines = log.mark?.lines ?? 0;
  const events: Event[] = [];
  const problems: ProblemData[] = [];
  const mark = log.mark;
  const read = await readOn(
    path,
    mark,
    (bytes, from, to) => {
      const { at, line } = scanEvents(bytes, from, to, lines, (number, start, end) => {
        const event = eventOf(recordIn(bytes, start, end));
        if (event) events.push(event);
        else if (log.problems.length + problems.length < mostProblems)
          problems.push({ where: `${runFiles.events}, line ${number}`, message: "is no event" });
      });
      lines = line;
      return at;
    },
    () => lines,
  );
  // Two that read at once must not both add what they read.
  if (log.mark !== mark) return;
  log.mark = read;
  log.events = [...log.events, ...events];
  log.problems = [...log.problems, ...problems];
}

function eventOf(record: Record<string, unknown> | undefined): Event | undefined {
  if (typeof record?.type !== "string" || typeof record.step !== "number") return undefined;
  return { ...record, seq: typeof record.seq === "number" ? record.seq : null, step: record.step, type: record.type };
}
