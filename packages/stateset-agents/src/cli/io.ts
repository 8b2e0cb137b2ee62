import pc from "picocolors";
import type { ViewStream } from "../telemetry/live-view.ts";
import type { InterruptCode } from "./exit-codes.ts";

/** What a command sees of the outside. Tests give their own; `processIo()` is the real one. */
export interface CliIo {
  stdout: ViewStream;
  stderr: ViewStream;
  stdin: NodeJS.ReadableStream & { isTTY?: boolean };
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  /** Calls back on each request to stop, with the status the process is to end with, until the returned function is called. */
  onInterrupt(listener: (status: InterruptCode) => void): () => void;
}

/** Ctrl-C and `kill`, with the statuses that shells know them by. */
const interrupts = { SIGINT: 130, SIGTERM: 143 } as const;

export function processIo(): CliIo {
  return {
    stdout: process.stdout,
    stderr: process.stderr,
    stdin: process.stdin,
    env: process.env,
    cwd: process.cwd(),
    onInterrupt(listener) {
      // A terminal that goes away says so by a signal, and with every line that is written to it; a closed pipe by the latter alone.
      let gone = false;
      const left = () => {
        if (!gone) listener(129);
        gone = true;
      };
      const stops = Object.entries(interrupts).map(([signal, status]) => [signal, () => listener(status)] as const);
      for (const [signal, stop] of stops) process.on(signal, stop);
      process.on("SIGHUP", left);
      process.stdout.on("error", left);
      return () => {
        for (const [signal, stop] of stops) process.off(signal, stop);
        process.off("SIGHUP", left);
        process.stdout.off("error", left);
      };
    },
  };
}

/** https://no-color.org; FORCE_COLOR for recordings. */
export function wantsColor(io: CliIo, stream: ViewStream = io.stdout): boolean {
  if (io.env.NO_COLOR) return false;
  if (io.env.FORCE_COLOR && io.env.FORCE_COLOR !== "0") return true;
  return stream.isTTY === true && io.env.TERM !== "dumb";
}

export function colorsOf(io: CliIo, stream: ViewStream = io.stdout): ReturnType<typeof pc.createColors> {
  return pc.createColors(wantsColor(io, stream));
}

/** True when a person can be asked. */
export function isInteractive(io: CliIo): boolean {
  return io.stdin.isTTY === true && io.stdout.isTTY === true && !io.env.CI;
}

export function print(io: CliIo, ...lines: readonly string[]): void {
  for (const line of lines) io.stdout.write(`${line}\n`);
}

export function printJson(io: CliIo, value: unknown): void {
  io.stdout.write(`${JSON.stringify(value)}\n`);
}
