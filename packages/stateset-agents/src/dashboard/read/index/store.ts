/**
 * An index on the disk. It only saves time: one that is absent, damaged or of another version is made anew, and a folder that cannot be
 * written costs nothing but that.
 *
 *   bytes 0–15   u32 × 4: magic, version, length of the head, CRC-32 of the head
 *   the head     JSON; it ends where numbers of eight bytes may begin. What lists of runs need stands in it, so that they read no more.
 *   the body     columns one after the other, then text; the CRC-32 of all of it stands in the head
 */
import {
  closeSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { crc32 } from "node:zlib";
import { temporaryFor } from "../../../durable.ts";
import { NumberColumn, NumberTable } from "./number-table.ts";

const magic = 0x78696173;
/** Counts the forms of this file, and of what is made of a run's. */
const indexVersion = 5;
const fixedBytes = 16;

interface StoredColumn {
  name: string;
  /** Null: not finite. */
  last: number | null;
}

export interface StoredTable {
  rows: number;
  columns: StoredColumn[];
}

interface Head<T> {
  facts: T;
  tables: StoredTable[];
  /** Bytes. */
  text: number;
  crc32: number;
}

const bitBytes = (rows: number) => Math.ceil(rows / 64) * 8;
const floatBytes = (rows: number) => Math.ceil(rows / 2) * 8;
const tableBytes = ({ rows, columns }: { rows: number; columns: readonly unknown[] }) =>
  rows * 8 + columns.length * (floatBytes(rows) + bitBytes(rows));

export function writeIndex(path: string, facts: object, tables: readonly NumberTable[], said: string): void {
  const last = Buffer.from(said);
  const body = new Uint8Array(tables.reduce((sum, table) => sum + tableBytes(table), 0) + last.length);
  let at = 0;
  for (const { rows, steps, columns } of tables) {
    body.set(bytesOf(steps.subarray(0, rows)), at);
    at += rows * 8;
    for (const { values, present } of columns) {
      body.set(bytesOf(values.subarray(0, rows)), at);
      at += floatBytes(rows);
      body.set(present.subarray(0, Math.ceil(rows / 8)), at);
      at += bitBytes(rows);
    }
  }
  body.set(last, at);
  const stored = tables.map(
    ({ rows, columns }): StoredTable => ({
      rows,
      columns: columns.map(({ name, last }) => ({ name, last })),
    }),
  );
  const whole: Head<object> = { facts, tables: stored, text: last.length, crc32: crc32(body) };
  const json = Buffer.from(JSON.stringify(whole));
  const head = Buffer.alloc(fixedBytes + Math.ceil(json.length / 8) * 8, 0x20);
  json.copy(head, fixedBytes);
  const text = head.subarray(fixedBytes);
  [magic, indexVersion, text.length, crc32(text)].forEach((word, i) => {
    head.writeUInt32LE(word, 4 * i);
  });
  const temporary = temporaryFor(path);
  try {
    mkdirSync(dirname(path), { recursive: true });
    const file = openSync(temporary, "w");
    try {
      for (const part of [head, body]) for (let at = 0; at < part.length; ) at += writeSync(file, part, at);
    } finally {
      closeSync(file);
    }
    renameSync(temporary, path);
  } catch {
    removeIndex(temporary);
  }
}

const ending = ".index";

export const indexPath = (cacheDir: string, name: string): string => join(cacheDir, `${name}${ending}`);

export function indexFiles(cacheDir: string): string[] {
  try {
    const names = readdirSync(cacheDir).filter((name) => name.endsWith(ending));
    return names.map((name) => join(cacheDir, name));
  } catch {
    return [];
  }
}

export function removeIndex(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // It takes room, and nothing else.
  }
}

/** Undefined where it cannot be used. */
export function readHead<T>(path: string): T | undefined {
  return withFile(path, (file) => headIn<T>(file)?.head.facts);
}

export function readWhole<T>(path: string): { facts: T; tables: NumberTable[]; text: string } | undefined {
  return withFile(path, (file) => {
    const found = headIn<T>(file);
    if (!found) return undefined;
    const { head, end } = found;
    const size = head.tables.reduce((sum, table) => sum + tableBytes(table), 0) + head.text;
    if (fstatSync(file).size !== end + size) return undefined;
    const body = new Uint8Array(size);
    if (readSync(file, body, 0, size, end) !== size || crc32(body) !== head.crc32) return undefined;
    let at = 0;
    const tables = head.tables.map(({ rows, columns }) => {
      const steps = new Float64Array(body.buffer, at, rows);
      at += rows * 8;
      const own = columns.map(({ name, last }) => {
        const values = new Float32Array(body.buffer, at, rows);
        at += floatBytes(rows);
        const present = new Uint8Array(body.buffer, at, Math.ceil(rows / 8));
        at += bitBytes(rows);
        return new NumberColumn(name, values, present, last ?? Number.NaN);
      });
      return Object.assign(new NumberTable(steps, own), { rows });
    });
    return { facts: head.facts, tables, text: Buffer.from(body.buffer, at, head.text).toString() };
  });
}

function headIn<T>(file: number): { head: Head<T>; end: number } | undefined {
  const words = Buffer.alloc(fixedBytes);
  if (readSync(file, words, 0, fixedBytes, 0) !== fixedBytes) return undefined;
  if (words.readUInt32LE(0) !== magic || words.readUInt32LE(4) !== indexVersion) return undefined;
  const length = words.readUInt32LE(8);
  if (length > 1 << 28) return undefined;
  const text = Buffer.alloc(length);
  if (readSync(file, text, 0, length, fixedBytes) !== length || crc32(text) !== words.readUInt32LE(12))
    return undefined;
  return { head: JSON.parse(text.toString()) as Head<T>, end: fixedBytes + length };
}

function withFile<R>(path: string, use: (file: number) => R | undefined): R | undefined {
  let file: number | undefined;
  try {
    file = openSync(path, "r");
    return use(file);
  } catch {
    return undefined;
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float64Array | Float32Array) =>
  new Uint8Array(buffer, byteOffset, byteLength);
