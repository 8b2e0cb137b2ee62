/** A file that one process at a time holds. A lock whose process is gone is taken over. */
import { existsSync, linkSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { temporaryFor, temporaryPrefix, writeFailed } from "./durable.ts";
import { readPlainText } from "./plain-file.ts";

export interface LockHolder {
  pid: number;
  host: string;
  /** Tells the process from a later one with the same number, where the system says when it began. */
  born?: string;
}

export interface FileLock {
  /** Says that the holder lives; for holders on another machine, whose process cannot be asked. */
  touch(): void;
  release(): void;
}

/** A holder on another machine that has not touched its lock for this long is taken for gone. */
const silentMs = 60_000;

/** The lock, or who has it; undefined where several processes are after one that was left behind, and none got it yet. */
export function takeLock(path: string): { lock: FileLock } | { holder: LockHolder } | undefined {
  for (let tries = 0; tries < 10; tries++) {
    if (create(path)) return { lock: { touch: () => touch(path), release: () => release(path) } };
    const holder = lockHolder(path);
    if (holder) return { holder };
    takeAway(path);
  }
  return undefined;
}

function me(): string {
  const born = bornOf(process.pid);
  const holder: LockHolder = { pid: process.pid, host: hostname(), ...(born !== undefined && { born }) };
  return JSON.stringify(holder);
}

/** False when there is one already. It appears with its content: nobody ever reads half of it. */
function create(path: string): boolean {
  const temporary = temporaryFor(path);
  try {
    writeFileSync(temporary, me());
    linkSync(temporary, path);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // There is one; or whoever has it cleared up and took this for a killed process's.
    if (code === "EEXIST" || (code === "ENOENT" && existsSync(dirname(path)))) return false;
    throw writeFailed(path, error);
  } finally {
    rmSync(temporary, { force: true });
  }
}

/** Removes a lock that nobody holds any more. One process at a time: a lock that another one has taken meanwhile must not go with it. */
function takeAway(path: string): void {
  const taking = join(dirname(path), `${temporaryPrefix}${basename(path)}-taking`);
  if (!create(taking)) {
    // Its process is at it, or was killed while it was.
    if (!lockHolder(taking)) rmSync(taking, { force: true });
    return;
  }
  try {
    if (!lockHolder(path)) rmSync(path, { force: true });
  } finally {
    rmSync(taking, { force: true });
  }
}

/** Only one's own: that of a process that was taken for dead may be another's by now. */
function release(path: string): void {
  try {
    if (readFileSync(path, "utf8") === me()) rmSync(path, { force: true });
  } catch {
    // It is gone already.
  }
}

function touch(path: string): void {
  const now = new Date();
  try {
    utimesSync(path, now, now);
  } catch {
    // What was removed leaves nothing to hold.
  }
}

/** Who has the lock; undefined when nobody has. */
export function lockHolder(path: string): LockHolder | undefined {
  let holder: LockHolder;
  let touchedMs: number;
  try {
    holder = JSON.parse(readPlainText(path)) as LockHolder;
    touchedMs = statSync(path).mtimeMs;
  } catch {
    return undefined;
  }
  // 0 and less mean many processes at once, and whoever stops the holder would stop them.
  if (!(Number.isSafeInteger(holder?.pid) && holder.pid > 0)) return undefined;
  if (holder.host === hostname()) {
    const same = holder.born === undefined || holder.born === bornOf(holder.pid);
    return same && processExists(holder.pid) ? holder : undefined;
  }
  return Date.now() - touchedMs <= silentMs ? holder : undefined;
}

export function processExists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Somebody else's process exists too.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** When a process began, by the kernel's count; undefined where it does not say, and for one that is dead and only not yet buried. */
function bornOf(pid: number): string | undefined {
  try {
    // The name in parentheses may hold spaces; what follows has none. Field 22 counts from the first.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)!.split(" ");
    if (fields[0] === "Z" || fields[0] === "X") return undefined;
    return `${readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()}/${fields[19]}`;
  } catch {
    return undefined;
  }
}
