/**
 * Lines of `{"name":number,…}` into columns. The names of a line are mostly those of the line before, in their order: so each is compared
 * with the one that is expected instead of being read, and no object and no string is made. A line that is anything else is left to
 * JSON.parse, and what is no JSON is named.
 */
import type { NumberColumn, NumberTable } from "./number-table.ts";
import { exactNumber, numberEnd, scanNumber } from "./scan-number.ts";

/** A name with its quotes and colon, four bytes at a time and the rest, and the column it stands for; undefined: the step. */
interface Key {
  bytes: Uint8Array;
  words: Int32Array;
  column: NumberColumn | undefined;
  /** Where its last number stands in the bytes that are read; -1: not in these. */
  lastAt: number;
}

/** What a line said that could not be taken. */
export type OnProblem = (line: number, message: string) => void;

const [quote, colon, comma, open, close, backslash, newline] = [0x22, 0x3a, 0x2c, 0x7b, 0x7d, 0x5c, 0x0a];
/** How far ahead a name is looked for before it counts as a new one. */
const lookAhead = 12;

export class LineScanner {
  readonly #table: NumberTable;
  readonly #onProblem: OnProblem;
  /** In the order of the lines so far. */
  readonly #expected: Key[] = [];
  readonly #keys = new Map<string, Key>();
  /** The names of the line under way, and where their numbers stand: these are in the row that it would be. */
  readonly #taken: Key[] = [];
  readonly #places: number[] = [];
  #count = 0;
  #step = Number.NaN;
  /** Lines read so far. */
  lines: number;

  constructor(table: NumberTable, onProblem: OnProblem, lines = 0) {
    this.#table = table;
    this.#onProblem = onProblem;
    this.lines = lines;
  }

  /** Reads the whole lines of bytes[from … to) and says where the first one that is not whole begins. */
  scan(bytes: Uint8Array, from: number, to: number): number {
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const at = this.#lines(buffer, bytes, view, from, to);
    this.#settle(buffer);
    return at;
  }

  #lines(buffer: Buffer, bytes: Uint8Array, view: DataView, from: number, to: number): number {
    let at = from;
    while (at < to) {
      const end = buffer.indexOf(newline, at);
      if (end < 0 || end >= to) return at;
      this.lines++;
      this.#begin();
      if (end > at) {
        if (this.#flat(bytes, view, at, end)) this.#keep();
        else this.#otherwise(buffer, at, end);
      }
      at = end + 1;
    }
    return at;
  }

  /** Last numbers are told as they were written. */
  #settle(buffer: Buffer): void {
    for (const key of this.#keys.values()) {
      if (key.lastAt >= 0) key.column!.last = exactNumber(buffer, key.lastAt);
      key.lastAt = -1;
    }
  }

  #begin(): void {
    this.#count = 0;
    this.#step = Number.NaN;
    this.#table.reserve();
  }

  /** False where the line is not simply names and numbers. */
  #flat(bytes: Uint8Array, view: DataView, from: number, end: number): boolean {
    if (bytes[from] !== open || bytes[end - 1] !== close) return false;
    const expected = this.#expected;
    const taken = this.#taken;
    const places = this.#places;
    const row = this.#table.rows;
    let count = 0;
    let at = from + 1;
    for (let i = 0; ; i++) {
      let key = expected[i];
      if (key === undefined || !begins(bytes, view, at, key)) {
        key = this.#keyAt(bytes, at, end);
        if (!key) return false;
        i = this.#find(key, i);
      }
      at += key.bytes.length;
      let value = scanNumber(bytes, at);
      let next = numberEnd;
      if (next < 0) {
        // null: what was not finite when it was written.
        if (view.getUint32(at, true) !== 0x6c6c756e) return false;
        value = Number.NaN;
        next = at + 4;
      }
      const { column } = key;
      if (column === undefined) this.#step = value;
      else {
        if (row >= column.values.length) column.reserve(this.#table.steps.length);
        column.values[row] = value;
        places[count] = at;
        taken[count++] = key;
      }
      at = next;
      const byte = bytes[at];
      if (byte === comma) at++;
      else {
        this.#count = count;
        return byte === close && at === end - 1;
      }
    }
  }

  /** Where a name that was not the expected one belongs among those to come. */
  #find(key: Key, from: number): number {
    const last = Math.min(this.#expected.length, from + lookAhead);
    for (let i = from; i < last; i++) if (this.#expected[i] === key) return i;
    this.#expected.splice(from, 0, key);
    // Names that change places from line to line must not make the list longer and longer.
    if (this.#expected.length > 4 * this.#keys.size + lookAhead) this.#expected.length = from + 1;
    return from;
  }

  #keyAt(bytes: Uint8Array, at: number, end: number): Key | undefined {
    if (bytes[at] !== quote) return undefined;
    let to = at + 1;
    while (to < end && bytes[to] !== quote) {
      if (bytes[to] === backslash) return undefined;
      to++;
    }
    if (bytes[to + 1] !== colon) return undefined;
    const name = Buffer.from(bytes.buffer, bytes.byteOffset + at + 1, to - at - 1).toString();
    return this.#keyOf(name, bytes.slice(at, to + 2));
  }

  #keyOf(name: string, bytes: Uint8Array): Key {
    const known = this.#keys.get(name);
    if (known) return known;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const words = Int32Array.from({ length: bytes.length >> 2 }, (_, i) => view.getInt32(4 * i, true));
    const key = { bytes, words, column: name === "step" ? undefined : this.#table.column(name), lastAt: -1 };
    this.#keys.set(name, key);
    return key;
  }

  /** Only numbers are taken of it. Which of its bytes they are is not known: their last ones are those that a float32 holds. */
  #otherwise(buffer: Buffer, from: number, end: number): void {
    this.#begin();
    let record: unknown;
    try {
      record = JSON.parse(buffer.toString("utf8", from, end));
    } catch {
      this.#onProblem(this.lines, "is no JSON");
      return;
    }
    if (typeof record !== "object" || record === null || Array.isArray(record)) {
      this.#onProblem(this.lines, "is no JSON object");
      return;
    }
    const row = this.#table.rows;
    for (const [name, value] of Object.entries(record)) {
      if (typeof value !== "number" && value !== null) continue;
      const key = this.#keyOf(name, Buffer.from(`${JSON.stringify(name)}:`));
      if (key.column === undefined) this.#step = value ?? Number.NaN;
      else {
        key.column.reserve(this.#table.steps.length);
        key.column.values[row] = value ?? Number.NaN;
        this.#places[this.#count] = -1;
        this.#taken[this.#count++] = key;
      }
    }
    this.#keep();
  }

  #keep(): void {
    const table = this.#table;
    const step = this.#step;
    if (!(step >= 0 && step < Number.POSITIVE_INFINITY)) this.#onProblem(this.lines, "names no step");
    else if (step < table.lastStep)
      this.#onProblem(this.lines, `is of step ${step}, after one of step ${table.lastStep}`);
    else {
      const row = table.rows++;
      table.steps[row] = step;
      const [byte, bit] = [row >> 3, 1 << (row & 7)];
      const [taken, places] = [this.#taken, this.#places];
      for (let i = 0; i < this.#count; i++) {
        const key = taken[i]!;
        const column = key.column!;
        column.present[byte]! |= bit;
        key.lastAt = places[i]!;
        if (key.lastAt < 0) column.last = column.values[row]!;
      }
    }
  }
}

/** Reading beyond the end of the bytes cannot happen: a line ends in } and a line feed, and no name holds those. */
function begins(bytes: Uint8Array, view: DataView, at: number, { bytes: own, words }: Key): boolean {
  const length = words.length;
  if (at + own.length > bytes.length) return false;
  for (let i = 0; i < length; i++) if (view.getInt32(at + 4 * i, true) !== words[i]) return false;
  for (let i = 4 * length; i < own.length; i++) if (bytes[at + i] !== own[i]) return false;
  return true;
}
