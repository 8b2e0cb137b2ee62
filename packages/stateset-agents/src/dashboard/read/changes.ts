/**
 * What happened since it was asked last. Of a run that goes on a few files are looked at each time; one that is over is looked at
 * now and then, since somebody may take it up again or write a note.
 */
import { pathIn, type RunFile } from "../../run/layout.ts";
import { LiveTail } from "../../run/read-live.ts";
import type { RunRow } from "../api/index.ts";
import { fileStamp } from "./file-stamp.ts";
import type { Library } from "./library.ts";
import { conversationOf } from "./live.ts";
import { listPlaces, type RunPlace } from "./places.ts";
import type { Change } from "./reader.ts";
import { rowOf } from "./row.ts";

/** Files whose change changes a row. */
const watched = ["status", "metrics", "timing", "events", "config", "notes"] as const satisfies readonly RunFile[];
/** A run that is over is looked at every so many times. */
const idleRounds = 4;

interface Known {
  place: RunPlace;
  row: RunRow;
  /** The row as it was told, without the heartbeat: that alone is no news. */
  text: string;
  stamp: string;
  step: number;
  generation: number;
  live: LiveTail;
}

export class Changes {
  readonly #library: Library;
  #known: Map<string, Known> | undefined;
  #round = 0;
  #busy: Promise<unknown> = Promise.resolve();

  constructor(library: Library) {
    this.#library = library;
  }

  since(): Promise<Change[]> {
    const next = this.#busy.then(() => this.#look());
    this.#busy = next.catch(() => {});
    return next;
  }

  async #look(): Promise<Change[]> {
    const first = this.#known === undefined;
    this.#known ??= new Map();
    const known = this.#known;
    const places = listPlaces(this.#library.folders);
    const rows: RunRow[] = [];
    const rest: Change[] = [];
    this.#round++;
    for (const place of places) {
      const told = await this.#lookAt(place, known.get(place.key)).catch(() => undefined);
      if (!told) continue;
      known.set(place.key, told.now);
      if (told.row) rows.push(told.row);
      rest.push(...told.changes);
    }
    const keys = new Set(places.map(({ key }) => key));
    const gone = [...known.keys()].filter((key) => !keys.has(key));
    for (const key of gone) {
      this.#library.indexes.drop(known.get(key)!.place.dir);
      known.delete(key);
    }
    if (first) {
      this.#library.indexes.sweep();
      return [];
    }
    const list: Change[] = rows.length + gone.length > 0 ? [{ kind: "runs", event: { rows, gone } }] : [];
    return [...list, ...rest];
  }

  async #lookAt(
    place: RunPlace,
    before: Known | undefined,
  ): Promise<{ now: Known; row?: RunRow; changes: Change[] } | undefined> {
    const { key, dir } = place;
    const running = before?.row.state === "running";
    if (before && !running && this.#round % idleRounds !== 0 && statusStamp(dir) === before.stamp.split("\n")[0])
      return undefined;
    const stamp = stampOf(dir);
    // A run that is not heard of is lost though nothing of it changes, so one that goes on is asked each time.
    if (before && stamp === before.stamp && !running) return undefined;
    const row = await rowOf(this.#library, place);
    const text = JSON.stringify({ ...row, heartbeatAt: null });
    const { generation, cutTo } = this.#library.indexes.of(dir);
    const live = before?.live ?? new LiveTail(dir);
    const now: Known = { place, row, text, stamp, step: row.step, generation, live };
    const over = row.state !== "running";
    const records = over && !before ? [] : live.next();
    // Folders may hold hundreds of runs, and each as many conversations.
    if (over) live.skip();
    const changes: Change[] = [];
    const cut = before !== undefined && generation !== before.generation && cutTo < before.step;
    if (before && (cut || row.step !== before.step))
      changes.push({ kind: "steps", event: { run: key, step: cut ? cutTo : row.step, cut } });
    if (cut && row.step > cutTo) changes.push({ kind: "steps", event: { run: key, step: row.step, cut: false } });
    if (records.length > 0) {
      const conversations = records.map((record) => conversationOf(key, record));
      changes.push({ kind: "conversations", event: { run: key, conversations } });
    }
    return { now, ...(text !== before?.text && { row }), changes };
  }
}

function statusStamp(dir: string): string {
  return stampIn(dir, "status");
}

/** The status first. */
function stampOf(dir: string): string {
  return watched.map((file) => stampIn(dir, file)).join("\n");
}

function stampIn(dir: string, file: RunFile): string {
  return fileStamp(pathIn(dir, file)) ?? "";
}
