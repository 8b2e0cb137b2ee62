/**
 * Constraints made in a thread of their own, so that a stranger's schema costs its own request and nobody else's: what is too large is
 * refused before it is sent there, what takes too long is ended with the thread, and the next one is made in another.
 */
import type { Worker } from "node:worker_threads";
import { z } from "zod";
import { StatesetError } from "../../error.ts";
import { longestTimerMs, parseOptions } from "../../options.ts";
import type { ByteAutomaton } from "../../policy/policy.ts";
import { Recent } from "../../recent.ts";
import { startThread } from "../../start-thread.ts";
import type { CallFormatName } from "../format/call-format.ts";
import type { ConstraintOptions } from "./compile-constraint.ts";
import { constraintKey } from "./constraint-cache.ts";
import { requireSize } from "./schema-size.ts";

const compilerOptionsSchema = z.strictObject({
  /** For one constraint, from when the thread begins with it. */
  timeoutMs: z.int().min(1).max(longestTimerMs).default(800),
  /** Of all schemas of a request together. */
  maxSchemaBytes: z
    .int()
    .min(1)
    .default(128 * 1024),
  /** How deep they may be nested. */
  maxSchemaDepth: z.int().min(1).default(64),
  /** Constraints that are kept, to be given again for the same options. */
  maxKept: z.int().min(1).default(64),
});

export type ConstraintCompilerOptions = z.input<typeof compilerOptionsSchema>;

export interface ConstraintCompiler {
  /** The same automaton for the same options, as long as it is kept. */
  compile(options: ConstraintOptions): Promise<ByteAutomaton>;
  /** What is still waiting is refused. */
  close(): Promise<void>;
}

/** What the thread is asked. */
export interface Asked extends Omit<ConstraintOptions, "tools" | "answer" | "format"> {
  format: CallFormatName | undefined;
  /** As text, so that reading it is the thread's work too. */
  schemas: string;
}
export type Schemas = Pick<ConstraintOptions, "tools" | "answer">;

export type WorkerReport =
  | "ready"
  | { made: ByteAutomaton }
  | { failed: { message: string; hint: string | undefined } };

interface Job {
  asked: Asked;
  done(made: ByteAutomaton): void;
  /** `again`: it may go well another time, so it is not kept. */
  fail(error: Error, again: boolean): void;
}

/** Bytes that the making of one may take. */
const heapMb = 512;

export function createConstraintCompiler(options: ConstraintCompilerOptions = {}): ConstraintCompiler {
  const { timeoutMs, maxKept, ...size } = parseOptions(compilerOptionsSchema, options, "createConstraintCompiler()");
  const kept = new Recent<Promise<ByteAutomaton>>(maxKept);
  const waiting: Job[] = [];
  let thread: { worker: Worker; ready: boolean } | undefined;
  let running: { job: Job; timer: NodeJS.Timeout } | undefined;
  let closed = false;

  const begin = () => {
    if (running || waiting.length === 0) return;
    thread ??= start();
    // A process that waits for nothing but this must not end.
    thread.worker.ref();
    if (!thread.ready) return;
    const job = waiting.shift()!;
    // An answer that came while this thread was busy is read before the time is looked at.
    const timer = setTimeout(() => setImmediate(late, job), timeoutMs);
    running = { job, timer };
    thread.worker.postMessage(job.asked);
  };
  const over = (): Job | undefined => {
    const { job, timer } = running ?? {};
    clearTimeout(timer);
    running = undefined;
    if (waiting.length === 0) thread?.worker.unref();
    return job;
  };
  const late = (job: Job) => {
    if (running?.job !== job) return;
    lose(tooMuch(`takes longer than ${timeoutMs} ms (timeoutMs)`));
  };
  /** Ends the thread, and with it the one that it was at. */
  const lose = (error: Error) => {
    const { worker } = thread!;
    // The next one is started at once, unless this one never did: then nobody but all are to blame.
    thread = running ? start() : undefined;
    void worker.terminate();
    const lost = running ? [over()!] : waiting.splice(0);
    for (const job of lost) job.fail(error, true);
    begin();
  };
  const start = () => {
    const own = { worker: openWorker(), ready: false };
    own.worker.on("message", (answer: WorkerReport) => {
      if (own !== thread) return;
      if (answer === "ready") own.ready = true;
      else if ("made" in answer) over()?.done(answer.made);
      else over()?.fail(new StatesetError("INVALID_OPTION", answer.failed.message, hinted(answer.failed.hint)), false);
      begin();
    });
    own.worker.on("error", (error: NodeJS.ErrnoException) => {
      if (own !== thread) return;
      lose(error.code === "ERR_WORKER_OUT_OF_MEMORY" ? tooMuch(`takes more than ${heapMb} MB of memory`) : error);
    });
    return own;
  };
  const make = (asked: Asked, key: string) =>
    new Promise<ByteAutomaton>((resolve, reject) => {
      const fail = (error: Error, again: boolean) => {
        if (again) kept.delete(key);
        reject(error);
      };
      waiting.push({ asked, done: resolve, fail });
      begin();
    });

  return {
    async compile({ tools, format, answer, ...rest }) {
      if (closed) throw closedError();
      const shown = tools.map(({ type, function: { name, parameters } }) => ({
        type,
        function: { name, ...(parameters && { parameters }) },
      }));
      requireSize([shown, answer?.schema], size);
      const key = constraintKey({ tools, format, answer, ...rest });
      const schemas = JSON.stringify({ tools: shown, answer } satisfies Schemas);
      return kept.get(key) ?? kept.set(key, make({ ...rest, format: format?.name, schemas }, key));
    },
    async close() {
      closed = true;
      const worker = thread?.worker;
      thread = undefined;
      const job = over();
      for (const one of [...(job ? [job] : []), ...waiting.splice(0)]) one.fail(closedError(), true);
      await worker?.terminate();
    },
  };
}

function openWorker(): Worker {
  const code = { from: import.meta.url, source: "./constraint-worker.ts", entry: "constraint-worker" };
  return startThread(code, { resourceLimits: { maxOldGenerationSizeMb: heapMb } });
}

function tooMuch(what: string): StatesetError {
  return new StatesetError("INVALID_OPTION", `Making a constraint of the schemas of tools and answer ${what}.`, {
    hint: "Make them simpler: long strings in lists of lists, large enums and patterns multiply.",
  });
}

const hinted = (hint: string | undefined) => (hint === undefined ? {} : { hint });

const closedError = () => new StatesetError("ABORTED", "The compiler of constraints was closed.");
