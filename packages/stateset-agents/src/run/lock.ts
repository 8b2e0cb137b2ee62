/** One process writes a run. A lock whose process is gone is taken over. */
import { existsSync, linkSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import { temporaryFor, temporaryPrefix, writeFailed } from "../durable.ts";
import { StatesetError } from "../error.ts";
import { pathIn } from "./layout.ts";
import { heartbeatMs, processExists } from "./status.ts";

interface Holder {
  pid: number;
  host: string;
  /** Tells the process from a later one with the same number, where the system says when it began. */
  born?: string;
}

export interface RunLock {
  /** Says that the holder lives; for holders on another machine, whose process cannot be asked. */
  touch(): void;
  release(): void;
}

/** Throws RUN_BUSY, naming the holder, when another process has it. `what` completes "cannot be …": "resumed", "removed". */
export function lockRun(dir: string, what: string): RunLock {
  const path = pathIn(dir, "lock");
  for (let tries = 0; tries < 10; tries++) {
    if (create(path)) return { touch: () => touch(path), release: () => release(path) };
    const holder = holderOf(dir);
    if (holder) throw busy(dir, holder, what);
    takeAway(dir, path);
  }
  throw new StatesetError("RUN_BUSY", `The lock of the run in ${dir} could not be taken.`, {
    hint: "Several processes are after it; try again.",
  });
}

function me(): string {
  const born = bornOf(process.pid);
  const holder: Holder = { pid: process.pid, host: hostname(), ...(born !== undefined && { born }) };
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
function takeAway(dir: string, path: string): void {
  const taking = join(dir, `${temporaryPrefix}lock-taking`);
  if (!create(taking)) {
    // Its process is at it, or was killed while it was.
    if (!holderOf(dir, taking)) rmSync(taking, { force: true });
    return;
  }
  try {
    if (!holderOf(dir, path)) rmSync(path, { force: true });
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
    // A run whose folder was removed has nothing left to hold.
  }
}

/** Who is writing the run; undefined when nobody is. */
export function holderOf(dir: string, path = pathIn(dir, "lock")): Holder | undefined {
  let holder: Holder;
  let touchedMs: number;
  try {
    holder = JSON.parse(readFileSync(path, "utf8")) as Holder;
    touchedMs = statSync(path).mtimeMs;
  } catch {
    return undefined;
  }
  if (typeof holder?.pid !== "number") return undefined;
  if (holder.host === hostname()) {
    const same = holder.born === undefined || holder.born === bornOf(holder.pid);
    return same && processExists(holder.pid) ? holder : undefined;
  }
  return Date.now() - touchedMs <= 12 * heartbeatMs ? holder : undefined;
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

function busy(dir: string, { pid, host }: Holder, what: string): StatesetError {
  const where = host === hostname() ? `process ${pid}` : `process ${pid} on ${host}`;
  return new StatesetError("RUN_BUSY", `The run in ${dir} cannot be ${what}: ${where} is running it.`, {
    hint: "Wait for it, or stop it first (Ctrl-C saves).",
  });
}
