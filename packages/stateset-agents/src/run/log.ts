/** A file of JSON lines that only grows, until it is cut back to a moment that was kept. */
import {
  appendFileSync,
  closeSync,
  existsSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  statSync,
} from "node:fs";
import { writeFailed } from "../durable.ts";
import { readPlainText } from "../plain-file.ts";

export class JsonLog<T> {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  append(...records: readonly T[]): void {
    if (records.length === 0) return;
    try {
      appendFileSync(this.path, records.map((record) => `${JSON.stringify(record)}\n`).join(""));
    } catch (error) {
      throw writeFailed(this.path, error);
    }
  }

  /** Bytes that are safely on the disk. */
  sync(): number {
    if (!existsSync(this.path)) return 0;
    return withFile(this.path, (file) => {
      fsyncSync(file);
      return statSync(this.path).size;
    });
  }

  /** False when it held less than that: what is left are its whole lines. */
  cut(bytes: number): boolean {
    if (!existsSync(this.path)) return bytes === 0;
    const { size } = statSync(this.path);
    const kept = size < bytes ? readFileSync(this.path).lastIndexOf("\n") + 1 : bytes;
    withFile(this.path, (file) => {
      ftruncateSync(file, kept);
      fsyncSync(file);
    });
    return size >= bytes;
  }

  /** Whole lines only: the last one may be under way, or was cut by a kill. */
  read(): T[] {
    return readJsonLines<T>(this.path);
  }
}

/** The records of a file that may be growing; none where there is no file. Lines that are no JSON objects are passed over. */
export function readJsonLines<T>(path: string): T[] {
  if (!existsSync(path)) return [];
  const records: T[] = [];
  for (const line of readPlainText(path).split("\n")) {
    if (line === "") continue;
    try {
      const record: unknown = JSON.parse(line);
      if (typeof record === "object" && record !== null) records.push(record as T);
    } catch {
      // A line that a kill or a damaged disk left behind says nothing.
    }
  }
  return records;
}

function withFile<R>(path: string, use: (file: number) => R): R {
  let file: number | undefined;
  try {
    file = openSync(path, "r+");
    return use(file);
  } catch (error) {
    throw writeFailed(path, error);
  } finally {
    if (file !== undefined) closeSync(file);
  }
}
