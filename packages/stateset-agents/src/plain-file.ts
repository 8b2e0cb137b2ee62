/**
 * Files that somebody else put there. One that is no plain file is refused instead of waited for: opening a pipe stops the thread until
 * somebody writes into it, and a device never ends.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";

/** A handle to read by. */
export function openPlain(path: string): number {
  // Windows has no such flag, and no such files.
  const file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  if (fstatSync(file).isFile()) return file;
  closeSync(file);
  // Named as the system's own failures are: whoever reads on past those reads on past this.
  throw Object.assign(new Error("it is no plain file"), { code: "EFTYPE" });
}

export function readPlain(path: string): Buffer {
  const file = openPlain(path);
  try {
    return readFileSync(file);
  } finally {
    closeSync(file);
  }
}

export function readPlainText(path: string): string {
  return readPlain(path).toString("utf8");
}
