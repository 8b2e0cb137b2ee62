import { write } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

/** Where lines go: a stream of the process, or a file that they are appended to. */
export type LogDestination = "stdout" | "stderr" | { file: string };

const writeTo = promisify(write);

/** Bytes that wait for a destination that does not take them; what comes on top is lost, and counted. */
const mostWaiting = 1 << 22;

/** From a failure to the next try. */
export const retryMs = 500;

/** A reader of the other end of a pipe that is slow has so many times so long to make room; then it counts as one that failed. */
const patience = { tries: 100, ms: 20 };

export interface LineSink {
  write(line: string): void;
  /** Lines that were dropped because the destination failed for too long, or still did at the end. */
  readonly lost: number;
  /** Resolves when everything is written, or the destination has just failed again: a full disk must not hold up the end. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Writes lines in order without ever holding anybody up. Where the destination fails (disk full, reader gone, folder missing) they
 * wait within bounds and are tried again; a line cut in two by a failure goes on where it was cut. `lostLine` makes the line that says how many are missing.
 */
export function createLineSink(target: LineTarget, lostLine: (count: number) => string): LineSink {
  let waiting: Buffer[] = [];
  let bytes = 0;
  let lost = 0;
  let said = 0;
  let timer: NodeJS.Timeout | undefined;
  let attempt: Promise<void> | undefined;

  const push = (line: string) => {
    const buffer = Buffer.from(line);
    waiting.push(buffer);
    bytes += buffer.length;
  };
  const writeAll = async () => {
    try {
      while (waiting.length > 0) {
        // Taken off only once written, so that nothing is lost when it is not.
        let batch = Buffer.concat(waiting);
        const count = waiting.length;
        try {
          while (batch.length > 0) batch = batch.subarray(await target.write(batch));
        } finally {
          waiting = [...(batch.length > 0 ? [batch] : []), ...waiting.slice(count)];
          bytes = waiting.reduce((sum, { length }) => sum + length, 0);
        }
        if (lost > said) {
          push(lostLine(lost - said));
          said = lost;
        }
      }
    } catch {
      await target.close();
      timer ??= setTimeout(() => {
        timer = undefined;
        void pump();
      }, retryMs);
      timer.unref();
    }
  };
  const pump = (): Promise<void> => {
    attempt ??= writeAll().finally(() => {
      attempt = undefined;
    });
    return attempt;
  };
  const sink: LineSink = {
    write(line) {
      if (bytes > 0 && bytes + line.length > mostWaiting) {
        lost++;
        return;
      }
      push(line);
      if (timer === undefined) void pump();
    },
    get lost() {
      return lost;
    },
    async flush() {
      // What is under way may have begun before the last lines came.
      await attempt;
      await pump();
    },
    async close() {
      await sink.flush();
      clearTimeout(timer);
      await target.close();
      lost += Buffer.concat(waiting).toString().split("\n").length - 1;
      waiting = [];
    },
  };
  return sink;
}

export interface LineTarget {
  /** How many bytes were taken. */
  write(bytes: Buffer): Promise<number>;
  close(): Promise<void>;
}

export function openTarget(destination: LogDestination): LineTarget {
  if (typeof destination === "string") {
    const fd = destination === "stdout" ? 1 : 2;
    return { write: (bytes) => writeToStream(fd, bytes), close: async () => {} };
  }
  let handle: FileHandle | undefined;
  return {
    async write(bytes) {
      handle ??= await open(destination.file, "a", 0o600);
      return (await handle.write(bytes)).bytesWritten;
    },
    // A file that failed is opened anew: it may have been moved, or its disk have come back.
    async close() {
      await handle?.close().catch(() => {});
      handle = undefined;
    },
  };
}

/** A pipe that is full refuses, where the process has made it one that does not wait. */
async function writeToStream(fd: number, bytes: Buffer): Promise<number> {
  for (let tries = 1; ; tries++) {
    try {
      return (await writeTo(fd, bytes)).bytesWritten;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN" || tries === patience.tries) throw error;
      await sleep(patience.ms);
    }
  }
}
