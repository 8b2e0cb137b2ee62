import { z } from "zod";
import { parseOptions } from "../../options.ts";
import { createLineSink, type LogDestination, openTarget } from "./line-sink.ts";
import type { Observer } from "./observer.ts";
import { redactWith } from "./redact.ts";

const levels = ["debug", "info", "warn", "error", "silent"] as const;

export const logSchema = z.strictObject({
  level: z.enum(levels).default("info"),
  content: z.boolean().default(false),
  redact: z.array(z.string().min(1)).default([]),
  destination: z.union([z.enum(["stdout", "stderr"]), z.strictObject({ file: z.string().min(1) })]).default("stdout"),
});

export interface LogOptions {
  /** Default "info": every request, and what happens to the server. "error": failures of the server alone. */
  level?: (typeof levels)[number] | undefined;
  /** Write what was asked and answered, and the messages of errors, which may quote it. Default false. */
  content?: boolean | undefined;
  /** Regular expressions of what must never be written. Keys and credentials never are. */
  redact?: string[] | undefined;
  /** Default "stdout". */
  destination?: LogDestination | undefined;
}

export interface Log extends Observer {
  /** Something that happened. Strings are written as they are but for secrets: do not give it what a user said. */
  event(name: string, fields?: Readonly<Record<string, unknown>>, level?: "debug" | "info" | "warn" | "error"): void;
  /** Lines that could not be written. */
  readonly lost: number;
  /** Resolves when everything is written, or cannot be. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

/** Characters beyond ASCII's own that some readers take for the end of a line, or terminals for a command. They can only be within strings. */
const foreignControls = /[\u007f-\u009f\u2028\u2029]/g;

/** JSON lines of ids, sizes and timings. Whatever happens to the destination, who writes is neither held up nor told: `lost` counts. */
export async function createLog(options: LogOptions = {}): Promise<Log> {
  const { level, content, redact, destination } = parseOptions(logSchema, options, "log");
  const { pino, stdTimeFunctions } = await import("pino");
  const clean = redactWith({ patterns: redact, content }) as (fields: object) => object;
  const lines: { write(line: string): void } = { write: (line) => sink.write(line.replace(foreignControls, escaped)) };
  const logger = pino(
    {
      level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      // No key of ours is special to pino: it would copy an error's message.
      errorKey: "",
      formatters: { level: (label) => ({ level: label }) },
    },
    lines,
  );
  const sink = createLineSink(
    openTarget(destination),
    (count) =>
      `${JSON.stringify({ level: "warn", time: new Date().toISOString(), event: "log-lost", lines: count })}\n`,
  );
  const write = (at: "debug" | "info" | "warn" | "error", line: { event: string }) => {
    let printed: object;
    try {
      printed = clean(line);
    } catch {
      // What is written decides how it is read, and that may fail.
      printed = { event: line.event, unreadable: true };
    }
    logger[at](printed);
  };
  return {
    served({ interTokenMs, ...one }, said) {
      write(one.failed ? "error" : "info", { event: "served", ...one, ...(content && said) });
    },
    event(name, fields = {}, at = "info") {
      write(at, { ...fields, event: name });
    },
    get lost() {
      return sink.lost;
    },
    flush: () => sink.flush(),
    close: () => sink.close(),
  };
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
