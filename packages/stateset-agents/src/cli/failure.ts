import { CommanderError } from "commander";
import { messageOf, StatesetError } from "../error.ts";
import { type ExitCode, exitCodeOf } from "./exit-codes.ts";
import { type CliIo, colorsOf } from "./io.ts";

/** Ends a command with a status and, where there is something to say, one message on standard error. */
export class CliExit extends Error {
  constructor(
    readonly status: ExitCode,
    message = "",
  ) {
    super(message);
  }
}

/** Writes what failed on standard error. Returns the exit status. */
export function reportFailure(error: unknown, io: CliIo): ExitCode {
  // Commander has already written help, version or its own message.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  if (error instanceof CliExit) {
    if (error.message !== "") io.stderr.write(`${colorsOf(io, io.stderr).red("✗")} ${error.message}\n`);
    return error.status;
  }
  for (const line of failureLines(error, io)) io.stderr.write(`${line}\n`);
  return exitCodeOf(error);
}

/** One readable message and what to do about it; the stack only with STATESET_DEBUG=1. */
export function failureLines(error: unknown, io: CliIo): string[] {
  const colors = colorsOf(io, io.stderr);
  const lines: string[] = [];
  const say = (mark: string, text: string) => lines.push(`${mark} ${text}`);
  if (StatesetError.isInstance(error)) {
    const { hint, code } = error;
    const message =
      hint && error.message.endsWith(hint) ? error.message.slice(0, -hint.length).trimEnd() : error.message;
    say(colors.red("✗"), `${message} ${colors.dim(`(${code})`)}`);
    if (hint) say(colors.cyan("→"), hint);
  } else {
    say(colors.red("✗"), `Unexpected: ${messageOf(error)}`);
    if (!debugging(io)) say(colors.cyan("→"), "Set STATESET_DEBUG=1 and run it again to see where this comes from.");
  }
  if (debugging(io)) {
    for (let cause: unknown = error; cause instanceof Error; cause = cause.cause)
      lines.push(colors.dim(cause.stack ?? ""));
  }
  return lines;
}

function debugging(io: CliIo): boolean {
  return io.env.STATESET_DEBUG === "1" || io.env.STATESET_DEBUG === "true";
}
