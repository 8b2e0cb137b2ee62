import { CommanderError } from "commander";
import { type ErrorCode, messageOf, StatesetError } from "../error.ts";
import { type ExitCode, exitCodeOf } from "./exit-codes.ts";
import { type CliIo, colorsOf, printJson } from "./io.ts";

/** Ends a command with a status and, where there is something to say, one message on standard error. */
export class CliExit extends Error {
  constructor(
    readonly status: ExitCode,
    message = "",
    /** For --json. */
    readonly code: ErrorCode | undefined = undefined,
  ) {
    super(message);
  }
}

/** What failed, as one object on standard output: the last line of what --json prints. */
export interface JsonFailure {
  type: "error";
  /** One of docs/reference/errors.md, or UNEXPECTED. */
  code: ErrorCode | "UNEXPECTED";
  message: string;
  hint?: string;
  /** The exit status. */
  status: ExitCode;
  /** With STATESET_DEBUG=1. */
  stack?: string;
}

/** Writes what failed: on standard error, or with --json as an object on standard output. Returns the exit status. */
export function reportFailure(error: unknown, io: CliIo, json = false): ExitCode {
  // Commander has already written help, version or its own message.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  if (json) return reportJson(error, io);
  if (error instanceof CliExit) {
    if (error.message !== "") io.stderr.write(`${colorsOf(io, io.stderr).red("✗")} ${error.message}\n`);
    return error.status;
  }
  for (const line of failureLines(error, io)) io.stderr.write(`${line}\n`);
  return exitCodeOf(error);
}

function reportJson(error: unknown, io: CliIo): ExitCode {
  if (error instanceof CliExit) {
    const { status, message, code = "UNEXPECTED" } = error;
    if (message !== "") printJson(io, { type: "error", code, message, status } satisfies JsonFailure);
    return status;
  }
  const status = exitCodeOf(error);
  const stack = debugging(io) && error instanceof Error ? { stack: error.stack ?? "" } : {};
  const failure: JsonFailure = StatesetError.isInstance(error)
    ? { type: "error", code: error.code, ...messageAndHint(error), status, ...stack }
    : { type: "error", code: "UNEXPECTED", message: messageOf(error), hint: debugHint, status, ...stack };
  printJson(io, failure);
  return status;
}

const debugHint = "Set STATESET_DEBUG=1 and run it again to see where this comes from.";

/** The message without the hint that it ends with. */
export function messageAndHint({ message, hint }: StatesetError): { message: string; hint?: string } {
  if (hint === undefined) return { message };
  return { message: message.endsWith(hint) ? message.slice(0, -hint.length).trimEnd() : message, hint };
}

/** One readable message and what to do about it; the stack only with STATESET_DEBUG=1. */
export function failureLines(error: unknown, io: CliIo): string[] {
  const colors = colorsOf(io, io.stderr);
  const lines: string[] = [];
  const say = (mark: string, text: string) => lines.push(`${mark} ${text}`);
  if (StatesetError.isInstance(error)) {
    const { message, hint } = messageAndHint(error);
    say(colors.red("✗"), `${message} ${colors.dim(`(${error.code})`)}`);
    if (hint) say(colors.cyan("→"), hint);
  } else {
    say(colors.red("✗"), `Unexpected: ${messageOf(error)}`);
    if (!debugging(io)) say(colors.cyan("→"), debugHint);
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
