/**
 * Lines of `{"name":number,…}` into columns. The names of a line are mostly those of the line before, in their order: so each is compared
 * with the one that is expected instead of being read, and no object and no string is made. A line that is anything else is left to
 * JSON.parse, and what is no JSON is named.
 */
import type { NumberTable } from "./number-table.ts";
import { type ScannedNumber, scanNumber } from "./scan-number.ts";

/** A name with its quotes and colon, and the column it stands for. `place` -1: the step. */
interface Key {
  bytes: Uint8Array;
  place: number;
}

/** What a line said that could not be taken. */
export type OnProblem = (line: number, message: string) => void;

const [quote, comma, open, close, backslash, newline] = [0x22, 0x2c, 0x7b, 0x7d, 0x5c, 0x0a];
/** How far ahead a name is looked for before it counts as a new one. */
const lookAhead = 12;

export class LineScanner {
  readonly #table: NumberTable;
  readonly #onProblem: OnProblem;
  /** In the order of the lines so far. */
  readonly #expected: Key[] = [];
  readonly #keys = new Map<string, Key>();
  readonly #number: ScannedNumber = { value: 0, end: 0 };
  #places = new Int32Array(64);
  #values = new Float64Array(64);
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
    let at = from;
    while (at < to) {
      const end = bytes.indexOf(newline, at);
      if (end < 0 || end >= to) return at;
      this.lines++;
      this.#count = 0;
      this.#step = Number.NaN;
      if (end > at) {
        if (this.#flat(bytes, at, end)) this.#keep();
        else this.#otherwise(bytes, at, end);
      }
      at = end + 1;
    }
    return at;
  }

  /** False where the line is not simply names and numbers. */
  #flat(bytes: Uint8Array, from: number, end: number): boolean {
    if (bytes[from] !== open || bytes[end - 1] !== close) return false;
    const number = this.#number;
    let at = from + 1;
    for (let i = 0; ; i++) {
      const expected = this.#expected[i];
      let key: Key | undefined;
      if (expected && begins(bytes, at, expected.bytes)) key = expected;
      else {
        key = this.#keyAt(bytes, at, end);
        if (!key) return false;
        i = this.#find(key, i);
      }
      at += key.bytes.length;
      scanNumber(bytes, at, number);
      if (number.end < 0) {
        // null: what was not finite when it was written.
        if (bytes[at] !== 0x6e || bytes[at + 1] !== 0x75 || bytes[at + 2] !== 0x6c || bytes[at + 3] !== 0x6c)
          return false;
        number.value = Number.NaN;
        number.end = at + 4;
      }
      this.#take(key.place, number.value);
      at = number.end;
      const byte = bytes[at];
      if (byte === close) return at === end - 1;
      if (byte !== comma) return false;
      at++;
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
    if (bytes[to + 1] !== 0x3a) return undefined;
    const name = Buffer.from(bytes.buffer, bytes.byteOffset + at + 1, to - at - 1).toString();
    return this.#keyOf(name, bytes.slice(at, to + 2));
  }

  #keyOf(name: string, bytes: Uint8Array): Key {
    const known = this.#keys.get(name);
    if (known) return known;
    const key = { bytes, place: name === "step" ? -1 : this.#table.placeOf(name) };
    this.#keys.set(name, key);
    return key;
  }

  #take(place: number, value: number): void {
    if (place < 0) {
      this.#step = value;
      return;
    }
    if (this.#count === this.#places.length) {
      const [places, values] = [new Int32Array(2 * this.#count), new Float64Array(2 * this.#count)];
      places.set(this.#places);
      values.set(this.#values);
      [this.#places, this.#values] = [places, values];
    }
    this.#places[this.#count] = place;
    this.#values[this.#count++] = value;
  }

  /** Only numbers are taken of it. */
  #otherwise(bytes: Uint8Array, from: number, end: number): void {
    this.#count = 0;
    this.#step = Number.NaN;
    let record: unknown;
    try {
      record = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset + from, end - from).toString());
    } catch {
      this.#onProblem(this.lines, "is no JSON");
      return;
    }
    if (typeof record !== "object" || record === null || Array.isArray(record)) {
      this.#onProblem(this.lines, "is no JSON object");
      return;
    }
    for (const [name, value] of Object.entries(record)) {
      if (typeof value !== "number" && value !== null) continue;
      const key = this.#keyOf(name, Buffer.from(`${JSON.stringify(name)}:`));
      this.#take(key.place, value ?? Number.NaN);
    }
    this.#keep();
  }

  #keep(): void {
    const step = this.#step;
    if (!(Number.isFinite(step) && step >= 0)) this.#onProblem(this.lines, "names no step");
    else if (step < this.#table.lastStep)
      this.#onProblem(this.lines, `is of step ${step}, after one of step ${this.#table.lastStep}`);
    else this.#table.add(step, this.#places, this.#values, this.#count);
  }
}

function begins(bytes: Uint8Array, at: number, key: Uint8Array): boolean {
  for (let i = 0; i < key.length; i++) if (bytes[at + i] !== key[i]) return false;
  return true;
}
