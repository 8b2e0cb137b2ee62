/** status.json: how a run stands, as others can see it. No other file says so, since what a run records does not depend on the clock. */
import { existsSync, renameSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { temporaryFor } from "../durable.ts";
import { processExists } from "../file-lock.ts";
import { readPlainText } from "../plain-file.ts";
import { pathIn } from "./layout.ts";

/** "lost": its process is gone, or has not been heard of. Never written, only read. */
export type RunState = "running" | "finished" | "stopped-early" | "interrupted" | "failed" | "lost";

export interface RunStatus {
  state: RunState;
  /** In words, unless it simply runs or finished. */
  reason?: string;
  pid: number;
  host: string;
  /** Milliseconds since 1970. The first start; a resumed run keeps it. */
  startedAt: number;
  heartbeatAt: number;
  /** Steps done, and to be done. */
  step: number;
  steps: number;
  /** It was asked to stop, and saves what it did: it need not be asked again. */
  stopping?: true;
}

/** Between two heartbeats; the live ones are told from the lost by three of them missing. */
export const heartbeatMs = 5000;

/** Of a run that this process begins. */
export function statusNow(steps: number): RunStatus {
  const now = Date.now();
  return { state: "running", pid: process.pid, host: hostname(), startedAt: now, heartbeatAt: now, step: 0, steps };
}

/** Not synced: after a crash of the machine nobody needs to know when the run last moved. */
export function writeStatus(dir: string, status: RunStatus): void {
  const path = pathIn(dir, "status");
  const temporary = temporaryFor(path);
  writeFileSync(temporary, `${JSON.stringify(status, undefined, 2)}\n`);
  renameSync(temporary, path);
}

/** Undefined for a run that wrote none, or none that says anything. */
export function readStatus(dir: string, now = Date.now()): RunStatus | undefined {
  const path = pathIn(dir, "status");
  if (!existsSync(path)) return undefined;
  let status: RunStatus | null;
  try {
    status = JSON.parse(readPlainText(path)) as RunStatus | null;
  } catch {
    return undefined;
  }
  if (typeof status?.state !== "string" || !Number.isFinite(status.startedAt)) return undefined;
  return status.state === "running" && !isAlive(status, now) ? { ...status, state: "lost" } : status;
}

function isAlive({ pid, host, heartbeatAt }: RunStatus, now: number): boolean {
  if (host === hostname() && !processExists(pid)) return false;
  return now - heartbeatAt <= 3 * heartbeatMs;
}
