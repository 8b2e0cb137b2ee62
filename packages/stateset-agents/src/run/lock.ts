/** One process writes a run. A lock whose process is gone is taken over. */
import { hostname } from "node:os";
import { StatesetError } from "../error.ts";
import { type FileLock, type LockHolder, lockHolder, takeLock } from "../file-lock.ts";
import { pathIn } from "./layout.ts";

/** Throws RUN_BUSY, naming the holder, when another process has it. `what` completes "cannot be …": "resumed", "removed". */
export function lockRun(dir: string, what: string): FileLock {
  const taken = takeLock(pathIn(dir, "lock"));
  if (taken === undefined) {
    throw new StatesetError("RUN_BUSY", `The lock of the run in ${dir} could not be taken.`, {
      hint: "Several processes are after it; try again.",
    });
  }
  if ("holder" in taken) throw busy(dir, taken.holder, what);
  return taken.lock;
}

/** Who is writing the run; undefined when nobody is. */
export function holderOf(dir: string): LockHolder | undefined {
  return lockHolder(pathIn(dir, "lock"));
}

function busy(dir: string, { pid, host }: LockHolder, what: string): StatesetError {
  const where = host === hostname() ? `process ${pid}` : `process ${pid} on ${host}`;
  return new StatesetError("RUN_BUSY", `The run in ${dir} cannot be ${what}: ${where} is running it.`, {
    hint: "Wait for it, or stop it first (Ctrl-C saves).",
  });
}
