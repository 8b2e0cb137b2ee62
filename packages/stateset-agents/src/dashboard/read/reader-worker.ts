/** The thread of open-reader.ts: one Reader, asked by messages. */
import { parentPort, workerData } from "node:worker_threads";
import { createReader } from "./create-reader.ts";
import type { ReaderOptions } from "./reader.ts";
import { type Asked, type Told, tellError } from "./reader-messages.ts";

const port = parentPort!;
const reader = createReader(workerData as ReaderOptions);
const tell = (told: Told, transfer: ArrayBuffer[] = []) => port.postMessage(told, transfer);

port.on("message", ({ id, method, args }: Asked) => {
  const answer = reader[method] as (...args: unknown[]) => Promise<unknown>;
  answer(...args)
    // Packed answers are handed over instead of copied: nobody keeps them here.
    .then((value) => tell({ id, value }, value instanceof Uint8Array ? [value.buffer as ArrayBuffer] : []))
    // Also of an answer that cannot be copied: the thread must not end by it, with all it knows.
    .catch((error: unknown) => tell({ id, error: tellError(error) }));
});
