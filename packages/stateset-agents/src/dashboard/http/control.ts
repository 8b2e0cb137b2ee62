/** Stopping and resuming runs of this machine. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync, statSync } from "node:fs";
import { hostname } from "node:os";
import type { z } from "zod";
import { messageOf } from "../../error.ts";
import { pathIn, runFiles } from "../../run/layout.ts";
import { holderOf } from "../../run/lock.ts";
import { readStatus } from "../../run/status.ts";
import { HttpError } from "../../server/http-error.ts";
import type { controlSchema, RunData } from "../api/index.ts";

type ControlData = z.infer<typeof controlSchema>;

/** A command that goes on with a run, as a program and for people. */
export interface ResumeCommand {
  file: string;
  args: readonly string[];
  cwd: string;
  shown: string;
}

export interface RunControl {
  of(dir: string): Pick<RunData, "stop" | "resume">;
  /** Asks the process to save and to end, once: asked again, it would end unsaved. Throws 409 where it cannot be asked. */
  stop(dir: string): { pid: number };
  /** Resolves when the run goes on. Throws 409 where it does not. */
  resume(dir: string): Promise<{ pid: number; log: string }>;
}

/** A run that has not begun by then is still reading its model. */
const longestStartMs = 20_000;

/** `resumeCommand`: undefined for a run that no command goes on with. */
export function createControl(resumeCommand: (dir: string) => ResumeCommand | undefined): RunControl {
  /** Between the click and the lock: a second click does not start it twice. */
  const starting = new Set<string>();
  /** By folder, the process that was asked to stop: until its next heartbeat says so, nothing else does. */
  const asked = new Map<string, number>();

  const isStopping = (dir: string): boolean => {
    const status = readStatus(dir);
    return status?.state === "running" && (status.stopping === true || asked.get(dir) === status.pid);
  };

  const runningPid = (dir: string): number | string => {
    const status = readStatus(dir);
    if (status?.state !== "running") return "It is not running.";
    if (status.host !== hostname()) return `It runs on ${status.host}.`;
    // A number that was given to another process since would be stopped in its place.
    if (holderOf(dir)?.pid !== status.pid) return "Its process does not hold the run any more.";
    if (!existsSync(pathIn(dir, "cli")))
      return "It was started by a program of its own, which a signal would end unsaved.";
    if (isStopping(dir)) return "It is stopping: it saves the steps done and ends.";
    if (process.platform === "win32") return "Windows knows no signal by which it would save what it did.";
    return status.pid;
  };

  const commandFor = (dir: string): ResumeCommand | string => {
    const state = readStatus(dir)?.state;
    if (holderOf(dir) !== undefined || state === "running") return "It is running.";
    if (starting.has(dir)) return "It is being started.";
    if (state === "finished") return "It is finished.";
    let command: ResumeCommand | undefined;
    try {
      command = resumeCommand(dir);
    } catch (error) {
      return messageOf(error);
    }
    return command ?? "It was started by a program of its own: call that again, with resumeFrom.";
  };

  return {
    of(dir) {
      const pid = runningPid(dir);
      const command = commandFor(dir);
      return {
        stop: {
          ...(typeof pid === "string" ? impossible(pid) : possible(`kill ${pid}`)),
          asked: isStopping(dir),
        },
        resume: typeof command === "string" ? impossible(command) : possible(command.shown),
      };
    },
    stop(dir) {
      const pid = runningPid(dir);
      if (typeof pid === "string") throw notPossible(pid);
      process.kill(pid, "SIGTERM");
      asked.set(dir, pid);
      return { pid };
    },
    async resume(dir) {
      const command = commandFor(dir);
      if (typeof command === "string") throw notPossible(command);
      starting.add(dir);
      try {
        return await started(dir, command);
      } finally {
        starting.delete(dir);
      }
    },
  };
}

const possible = (command: string): ControlData => ({ possible: true, why: null, command });
const impossible = (why: string): ControlData => ({ possible: false, why, command: null });

/** A process of its own: it goes on when the dashboard ends. */
async function started(dir: string, { file, args, cwd, shown }: ResumeCommand): Promise<{ pid: number; log: string }> {
  const log = pathIn(dir, "resumed");
  const out = openSync(log, "a", 0o600);
  const from = statSync(log).size;
  let child: ChildProcess;
  try {
    child = spawn(file, [...args], { cwd, detached: true, stdio: ["ignore", out, out] });
  } finally {
    closeSync(out);
  }
  child.unref();
  let failure: string | undefined;
  let done = false;
  child.once("error", (error) => {
    failure = messageOf(error);
  });
  child.once("exit", (code, signal) => {
    done = code === 0;
    if (!done) failure = lastLine(log, from) ?? `it ended with ${code ?? signal}`;
  });
  const until = Date.now() + longestStartMs;
  const holds = () => child.pid !== undefined && holderOf(dir)?.pid === child.pid;
  while (failure === undefined && !done && !holds() && Date.now() < until) {
    await new Promise((settle) => setTimeout(settle, 50));
  }
  if (failure !== undefined) throw notPossible(`\`${shown}\` failed: ${failure}`);
  return { pid: child.pid!, log: runFiles.resumed };
}

function lastLine(log: string, from: number): string | undefined {
  const lines = readFileSync(log).subarray(from).toString("utf8").trim().split("\n");
  // The line that says what failed, where the command line says it so.
  const said = lines.find((line) => line.includes("✗")) ?? lines.at(-1);
  return said?.replace(/^.*✗\s*/, "").slice(0, 500) || undefined;
}

function notPossible(why: string): HttpError {
  return new HttpError(409, why, { code: "not_possible" });
}
