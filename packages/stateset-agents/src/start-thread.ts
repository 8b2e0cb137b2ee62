/** Threads of this library, from its sources and from what is built of them. */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { Worker, type WorkerOptions } from "node:worker_threads";

export interface ThreadCode {
  /** `import.meta.url` of who starts it. */
  from: string;
  /** Its file, from there: `./constraint-worker.ts`. */
  source: string;
  /** Its entry in tsdown.config.ts. */
  entry: string;
}

/** It keeps no process from ending. */
export function startThread(code: ThreadCode, options: WorkerOptions = {}): Worker {
  const worker = code.from.endsWith(".ts") ? fromSource(code, options) : new Worker(builtFile(code), options);
  worker.unref();
  return worker;
}

/** Beside the file that it is bundled into, or, of a command, above it. */
function builtFile({ from, entry }: ThreadCode): URL {
  const [beside, above] = [`./${entry}.mjs`, `../${entry}.mjs`].map((at) => new URL(at, from));
  return existsSync(beside!) ? beside! : above!;
}

/** For who works on this library: threads do not read TypeScript by themselves. */
function fromSource({ from, source }: ThreadCode, options: WorkerOptions): Worker {
  const loader = new URL("./api/index.mjs", pathToFileURL(createRequire(import.meta.url).resolve("tsx/esm")));
  const file = new URL(source, from);
  const code = `import("${loader}").then(({ register }) => { register(); return import("${file}"); })`;
  return new Worker(code, { ...options, eval: true });
}
