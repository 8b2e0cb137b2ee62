/** What live.jsonl says, conversation by conversation, for whoever watches a run. Lines are read as they are appended. */
import { closeSync, fstatSync, readSync } from "node:fs";
import type { Message } from "../conversation/message.ts";
import { isShallow } from "../nesting.ts";
import { openPlain } from "../plain-file.ts";
import { pathIn } from "./layout.ts";
import type { LiveLine } from "./live.ts";

export interface LiveRecord {
  /** Of the last line that changed it: it grows when its reward comes. */
  seq: number;
  step: number;
  /** When it ended, in milliseconds since 1970. */
  at: number;
  id: string;
  scenario: string | null;
  group: string;
  ended: string | null;
  failure: string | null;
  /** Null until it was rewarded, and where its reward failed. */
  reward: number | null;
  /** Null: a part that was no number. */
  breakdown: Record<string, number | null>;
  messages: Message[];
}

/** The conversations that a run keeps for onlookers, in the order they ended. */
export function readLive(dir: string): LiveRecord[] {
  const tail = new LiveTail(dir);
  tail.next();
  return tail.all();
}

/** Conversations remembered at most: as many as a file can hold before it is cut. */
const most = 600;

/** Follows the file of one run. */
export class LiveTail {
  readonly #path: string;
  /** How far it was read, and how the file began then: one that was cut is another file, and begins with another line. */
  #place = { ino: -1, head: "", offset: 0 };
  #seq = 0;
  readonly #records = new Map<string, LiveRecord>();

  constructor(dir: string) {
    this.#path = pathIn(dir, "live");
  }

  all(): LiveRecord[] {
    return [...this.#records.values()];
  }

  /** Reads what was appended: the conversations that ended or were rewarded since the call before. None where there is no file. */
  next(): LiveRecord[] {
    const changed = new Set<string>();
    const seen = this.#seq;
    for (const line of this.#newLines()) {
      const id = this.#apply(line);
      // A file that was cut is read from its beginning: what is known of it is not told again.
      if (id !== undefined && line.seq > seen) changed.add(id);
      this.#seq = Math.max(this.#seq, line.seq);
    }
    for (const id of this.#records.keys()) {
      if (this.#records.size <= most) break;
      this.#records.delete(id);
    }
    return [...changed].flatMap((id) => this.#records.get(id) ?? []);
  }

  /** Lets go of what it knows and goes on from the file's end: of a run that is over nobody hears more until it is taken up. */
  skip(): void {
    this.#records.clear();
    this.#added({ pass: true });
  }

  #apply(line: LiveLine): string | undefined {
    const { seq, step } = line;
    if (line.type === "back") {
      for (const [id, record] of this.#records) if (record.step > step) this.#records.delete(id);
      return undefined;
    }
    const { id, failure } = line;
    if (line.type === "conversation") {
      const { at, scenarioId, group, ended, messages } = line;
      const place = { seq, step, at, id, scenario: scenarioId ?? null, group, ended: ended ?? null };
      // A step that is done again says it again, in another place.
      this.#records.delete(id);
      this.#records.set(id, { ...place, failure: failure?.message ?? null, reward: null, breakdown: {}, messages });
      return id;
    }
    const record = this.#records.get(id);
    if (!record) return undefined;
    const { score = null, breakdown = {} } = line;
    this.#records.set(id, {
      ...record,
      seq,
      reward: score,
      breakdown,
      failure: failure?.message ?? record.failure,
    });
    return id;
  }

  #newLines(): LiveLine[] {
    const added = this.#added();
    // The last line may be under way.
    const whole = added.subarray(0, added.lastIndexOf(10) + 1);
    this.#place.offset += whole.length;
    return whole
      .toString("utf8")
      .split("\n")
      .flatMap((text) => parseLine(text) ?? []);
  }

  /** The bytes since the place it was read to; all of them where the file is another one. */
  #added({ pass = false } = {}): Buffer {
    let file: number | undefined;
    try {
      file = openPlain(this.#path);
      const { ino, size } = fstatSync(file);
      const start = Buffer.alloc(Math.min(64, size));
      const head = start.toString("latin1", 0, readSync(file, start, 0, start.length, 0));
      const goesOn = ino === this.#place.ino && this.#place.offset <= size && head.startsWith(this.#place.head);
      if (!goesOn) this.#records.clear();
      this.#place = { ino, head, offset: pass ? size : goesOn ? this.#place.offset : 0 };
      const added = Buffer.alloc(size - this.#place.offset);
      return added.subarray(0, readSync(file, added, 0, added.length, this.#place.offset));
    } catch {
      // None yet, or none that can be read.
      return Buffer.alloc(0);
    } finally {
      if (file !== undefined) closeSync(file);
    }
  }
}

function isMessage(value: unknown): boolean {
  return typeof value === "object" && value !== null && typeof (value as { role?: unknown }).role === "string";
}

/** Undefined for what a kill or a later version left. */
function parseLine(text: string): LiveLine | undefined {
  if (text === "") return undefined;
  try {
    const line = JSON.parse(text) as LiveLine | null;
    if (typeof line !== "object" || line === null || !Number.isFinite(line.seq) || !Number.isFinite(line.step))
      return undefined;
    if (line.type === "back") return line;
    if (typeof line.id !== "string" || typeof line.group !== "string") return undefined;
    if (line.type === "reward") return line;
    if (line.type !== "conversation" || !Array.isArray(line.messages) || !line.messages.every(isMessage))
      return undefined;
    return isShallow(line) ? line : undefined;
  } catch {
    return undefined;
  }
}
