/** Writing files so that a crash leaves either the old or the new state, never something between. */
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { messageOf, StatesetError } from "./error.ts";

/** Puts a file in place whole: written beside it, synced, renamed over it. `mode` is what a new file may be read by, less the umask. */
export function writeFileAtomic(path: string, content: string | Uint8Array, { mode = 0o666 } = {}): void {
  const temporary = temporaryFor(path);
  try {
    makeFolders(dirname(path));
    // One that a killed process left would keep the mode it had.
    rmSync(temporary, { force: true });
    writeFileSync(temporary, content, { mode });
    syncPath(temporary);
    renameSync(temporary, path);
    syncFolder(dirname(path));
  } catch (error) {
    rmSync(temporary, { force: true });
    throw writeFailed(path, error);
  }
}

export function writeJsonAtomic(path: string, value: unknown, options: { mode?: number } = {}): void {
  writeFileAtomic(path, `${JSON.stringify(value, undefined, 2)}\n`, options);
}

/**
 * Fills a temporary folder and renames it to `dir`. What was at `dir` is moved aside at the last moment and removed after;
 * when `fill` or the disk fails, it stays, and after a kill in between settleFolder() puts it back. `replace: false`: what is at `dir`,
 * unless it is an empty folder, is never touched, and the write fails.
 */
export async function writeFolderAtomic(
  dir: string,
  fill: (temporary: string) => Promise<void>,
  { replace = true } = {},
): Promise<void> {
  const temporary = temporaryFor(dir);
  const aside = join(dirname(dir), asidePrefix + basename(dir));
  try {
    makeFolders(dirname(dir));
    rmSync(temporary, { recursive: true, force: true });
    mkdirSync(temporary);
    await fill(temporary);
    syncTree(temporary);
    if (replace && existsSync(dir)) {
      rmSync(aside, { recursive: true, force: true });
      renameSync(dir, aside);
    }
    renameSync(temporary, dir);
    syncFolder(dirname(dir));
    if (replace) rmSync(aside, { recursive: true, force: true });
  } catch (error) {
    try {
      if (replace && existsSync(aside) && !existsSync(dir)) renameSync(aside, dir);
      rmSync(temporary, { recursive: true, force: true });
    } catch {
      // A read-only folder cannot be cleaned either; the failure that matters is the first one.
    }
    throw writeFailed(dir, error);
  }
}

export const temporaryPrefix = ".tmp-";
const asidePrefix = ".old-";

/** Beside the target, so that a rename is enough to put it in place; settleFolder() knows it by its name. */
export function temporaryFor(path: string): string {
  return join(dirname(path), `${temporaryPrefix}${process.pid}-${basename(path)}`);
}

/** Whose process a half written file or folder is; undefined for names of other kinds. */
export function temporaryOwner(name: string): number | undefined {
  const [, pid] = /^\.tmp-(\d+)-/.exec(name) ?? [];
  return pid === undefined ? undefined : Number(pid);
}

/** Clears up in `dir` after a killed process: a folder that was moved aside and not replaced goes back, what is half written goes. */
export function settleFolder(dir: string): void {
  if (!existsSync(dir)) return;
  for (const name of readdirSync(dir)) {
    const path = join(dir, name);
    const place = name.startsWith(asidePrefix) ? join(dir, name.slice(asidePrefix.length)) : undefined;
    if (place !== undefined && !existsSync(place)) renameSync(path, place);
    else if (place !== undefined || name.startsWith(temporaryPrefix)) rmSync(path, { recursive: true, force: true });
  }
}

/**
 * A folder and those above it. Node's own `recursive` tries for ever where a file system says of every new folder that its parent is not
 * there, as /proc does.
 */
export function makeFolders(dir: string): void {
  if (existsSync(dir)) return;
  makeFolders(dirname(dir));
  try {
    mkdirSync(dir);
  } catch (error) {
    // Another process may have made it meanwhile.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

/** File system errors become WRITE_FAILED with advice; others pass through. */
export function writeFailed(path: string, error: unknown): unknown {
  if (StatesetError.isInstance(error)) return error;
  const code = (error as NodeJS.ErrnoException).code;
  if (code === undefined) return error;
  const hints: Record<string, string> = {
    ENOSPC: "The disk is full: free some space, then resume the run.",
    EDQUOT: "The disk quota is used up: free some space, then resume the run.",
    EROFS: "The file system is read-only: choose another folder.",
    EACCES: "The folder may not be written: change its permissions or choose another one.",
    EPERM: "The folder may not be written: change its permissions or choose another one.",
  };
  return new StatesetError("WRITE_FAILED", `Could not write ${path}: ${messageOf(error)}.`, {
    hint: `${hints[code] ?? "Check the folder, then resume the run."} What was written before is intact.`,
    cause: error,
  });
}

/** Every file below, then the folders that hold them. */
function syncTree(dir: string): void {
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    const path = join(dir, entry.name);
    if (entry.isDirectory()) syncTree(path);
    else syncPath(path);
  }
  syncFolder(dir);
}

/** Makes a rename inside the folder durable. Windows cannot open folders; there the file system takes care of it. */
export function syncFolder(dir: string): void {
  if (process.platform !== "win32") syncPath(dir);
}

export function syncPath(path: string): void {
  const file = openSync(path, "r");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
