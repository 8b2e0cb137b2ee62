/**
 * Independent jobs in several processes. A job is plain JSON; it runs in a fresh process of the same entry file, started with
 * `--job '<json>'`, and answers with its result as JSON on the last line of standard output. That works under tsx and in a bundle alike.
 * Results are appended to a JSONL file as they come: what lies there for the same settings is not run again, and files of several
 * machines are merged by concatenating them.
 */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname } from "node:path";
import { performance } from "node:perf_hooks";
import { describeMachine, type Roofline } from "./machine.ts";

/** A line of the JSONL file. */
export interface JobRow<Job, Result> {
  /** Of everything beside the job that decides its result. */
  settings: string;
  job: Job;
  result: Result;
  /** By the clock, the start of the process included. */
  seconds: number;
  /** Of the processors. */
  cpuSeconds: number;
  machine: string;
  /** What the machine could do when the jobs began, where that was measured. */
  roofline?: Roofline;
}

export interface FailedJob<Job> {
  job: Job;
  message: string;
}

export interface JobsOptions<Job> {
  jobs: readonly Job[];
  /** Everything beside a job that decides its result: rows kept under other settings are left alone. */
  settingsOf: (job: Job) => unknown;
  /** The JSONL file that results are appended to. */
  file: string;
  /** Processes at once. */
  processes?: number;
  /** That each process uses. Default 1. */
  threads?: number;
  /** Since the start of this process: after so many no job is started; those that run are finished. For machines that are lent for a while. */
  minutes?: number;
  /** Kept beside the machine in every row. */
  roofline?: Roofline | undefined;
  /** What a job is called in progress lines. */
  label?: (job: Job) => string;
  say?: (line: string) => void;
}

/**
 * Call first in an entry file: in a process started for a job it runs it, answers and ends the process; otherwise it does nothing.
 * Only the result goes to standard output, on its last line.
 */
export async function serveJob<Job, Result>(run: (job: Job) => Promise<Result>): Promise<void> {
  const at = process.argv.indexOf("--job");
  if (at < 0) return;
  try {
    const result = await run(JSON.parse(process.argv[at + 1]!) as Job);
    const { user, system } = process.cpuUsage();
    const answer = JSON.stringify({ result, cpuSeconds: Number(((user + system) / 1e6).toFixed(2)) });
    await new Promise<void>((written) => process.stdout.write(`\n${answer}\n`, () => written()));
  } catch (error) {
    console.error(error);
    process.exit(1);
  }
  process.exit(0);
}

/** Rows of all jobs in their order, kept ones included, those that failed with what they wrote last, and how many were not begun. A failure does not stop the others. */
export async function runJobs<Job, Result>({
  jobs,
  settingsOf,
  file,
  threads = 1,
  minutes = Number.POSITIVE_INFINITY,
  processes = Math.max(1, Math.floor(availableParallelism() / threads)),
  roofline,
  label = (job) => JSON.stringify(job),
  say = (line) => console.error(line),
}: JobsOptions<Job>): Promise<{ rows: JobRow<Job, Result>[]; failed: FailedJob<Job>[]; left: number }> {
  const rows = new Map(keptRows<Job, Result>(file, settingsOf).map((row) => [JSON.stringify(row.job), row]));
  const waiting = jobs.filter((job) => !rows.has(JSON.stringify(job)));
  const failed: FailedJob<Job>[] = [];
  const total = waiting.length;
  if (total < jobs.length) say(`${jobs.length - total} of ${jobs.length} jobs are kept in ${file}.`);
  mkdirSync(dirname(file), { recursive: true });
  // After a line cut short the next row must not be glued to it.
  if (existsSync(file) && !readFileSync(file, "utf8").endsWith("\n")) appendFileSync(file, "\n");
  const machine = describeMachine();
  const startedAt = performance.now();
  let done = 0;
  const next = () => (performance.now() < 60_000 * minutes ? waiting.shift() : undefined);
  const work = async () => {
    for (let job = next(); job !== undefined; job = next()) {
      const jobStartedAt = performance.now();
      let outcome: string;
      try {
        const answer = await runInProcess<Result>(job);
        const seconds = (performance.now() - jobStartedAt) / 1000;
        const row = {
          settings: settingsHash(settingsOf(job)),
          job,
          ...answer,
          seconds: Number(seconds.toFixed(2)),
          machine,
          ...(roofline && { roofline }),
        };
        rows.set(JSON.stringify(job), row);
        appendFileSync(file, `${JSON.stringify(row)}\n`);
        outcome = `${seconds.toFixed(1)} s (processor ${answer.cpuSeconds.toFixed(1)} s)`;
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        failed.push({ job, message });
        outcome = `FAILED: ${message.split("\n")[0]}`;
      }
      done++;
      const left = ((performance.now() - startedAt) / 1000 / done) * (total - done);
      say(`${done}/${total}, ${duration(left)} left · ${label(job)} · ${outcome}`);
    }
  };
  await Promise.all(Array.from({ length: Math.min(processes, total) }, work));
  return {
    rows: jobs.flatMap((job) => rows.get(JSON.stringify(job)) ?? []),
    failed,
    left: waiting.length,
  };
}

/** What the file holds for the settings of now. A line cut short by an interruption is left out: its job runs again. */
export function keptRows<Job, Result>(file: string, settingsOf: (job: Job) => unknown): JobRow<Job, Result>[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8")
    .split("\n")
    .flatMap((line) => {
      try {
        return [JSON.parse(line) as JobRow<Job, Result>];
      } catch {
        return [];
      }
    })
    .filter((row) => row.settings === settingsHash(settingsOf(row.job)));
}

export function settingsHash(settings: unknown): string {
  return createHash("sha256").update(JSON.stringify(settings)).digest("hex").slice(0, 12);
}

function runInProcess<Result>(job: unknown): Promise<{ result: Result; cpuSeconds: number }> {
  return new Promise((resolve, reject) => {
    // execArgv holds tsx's loader where the entry is TypeScript.
    const args = [...process.execArgv, process.argv[1]!, "--job", JSON.stringify(job)];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    let complaints = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      complaints = (complaints + text).slice(-2000);
    });
    child.on("error", reject);
    child.on("close", (code, signal) => {
      if (code !== 0) return reject(new Error(`${signal ?? `exit code ${code}`}: ${complaints.trim()}`));
      const last = output.trimEnd().split("\n").at(-1)!;
      try {
        resolve(JSON.parse(last) as { result: Result; cpuSeconds: number });
      } catch {
        reject(new Error(`its last line of output is no JSON: ${last.slice(0, 200)}. ${complaints.trim()}`));
      }
    });
  });
}

function duration(seconds: number): string {
  const whole = Math.round(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}
