/** The Reader in a thread of its own, so that whoever streams tokens is never held up by a file. */
import type { Worker } from "node:worker_threads";
import { startThread } from "../../start-thread.ts";
import type { Reader, ReaderOptions } from "./reader.ts";
import { type Asked, type Method, type Told, toldError } from "./reader-messages.ts";

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

const methods = [
  "runs",
  "run",
  "config",
  "events",
  "evaluations",
  "series",
  "csv",
  "trajectories",
  "trajectory",
  "tokens",
  "group",
  "live",
  "compare",
  "compareSeries",
  "dirOf",
  "changes",
] as const satisfies Method[];

/** The thread begins with the first question: a server that nobody looks at has none. One that dies fails what it was asked, and the next question starts another. */
export async function openReader(options: ReaderOptions): Promise<Reader> {
  const waiting = new Map<number, Waiting>();
  let thread: Worker | undefined;
  let asked = 0;
  let closed = false;

  const lose = (own: Worker, error: Error) => {
    if (own !== thread) return;
    thread = undefined;
    const lost = [...waiting.values()];
    waiting.clear();
    for (const { reject } of lost) reject(error);
  };
  const start = () => {
    const code = { from: import.meta.url, source: "./reader-worker.ts", entry: "reader-worker" };
    const worker = startThread(code, { workerData: options });
    worker.on("message", (told: Told) => {
      const one = waiting.get(told.id);
      waiting.delete(told.id);
      if (waiting.size === 0) worker.unref();
      if ("error" in told) one?.reject(toldError(told.error));
      else one?.resolve(told.value);
    });
    worker.on("error", (error) => lose(worker, error));
    worker.on("exit", () => lose(worker, new Error("The reader's thread ended.")));
    thread = worker;
    return worker;
  };
  const ask = (method: Method, args: unknown[]) =>
    new Promise<unknown>((resolve, reject) => {
      if (closed) return reject(new Error("The reader was closed."));
      const worker = thread ?? start();
      const id = asked++;
      waiting.set(id, { resolve, reject });
      // A process that waits for nothing but this must not end.
      worker.ref();
      worker.postMessage({ id, method, args } satisfies Asked);
    });

  const answers = methods.map((method) => [method, (...args: unknown[]) => ask(method, args)]);
  return {
    ...(Object.fromEntries(answers) as Omit<Reader, "close">),
    async close() {
      if (closed) return;
      // It writes what it learnt of the runs.
      if (thread) await ask("close", []).catch(() => {});
      closed = true;
      const worker = thread;
      thread = undefined;
      await worker?.terminate();
      for (const { reject } of waiting.values()) reject(new Error("The reader was closed."));
    },
  };
}
