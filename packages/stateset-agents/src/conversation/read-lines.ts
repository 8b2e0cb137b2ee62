import { createReadStream } from "node:fs";
import { messageOf, StatesetError } from "../error.ts";

/** The text of a file piece by piece, without a byte order mark. */
export async function* readText(path: string): AsyncGenerator<string> {
  const input = createReadStream(path, { encoding: "utf8", highWaterMark: 1 << 16 });
  let first = true;
  try {
    for await (const chunk of input as AsyncIterable<string>) {
      yield first ? chunk.replace(/^\uFEFF/, "") : chunk;
      first = false;
    }
  } catch (error) {
    throw unreadable(path, error);
  } finally {
    input.destroy();
  }
}

/**
 * The lines of a file with their numbers (from 1); empty ones are left out. Only a line feed ends a line: JSON text may hold other
 * separators, such as U+2028, as they are.
 */
export async function* readLines(path: string): AsyncGenerator<TextEntry> {
  let line = 0;
  let begun = "";
  for await (const chunk of readText(path)) {
    const lines = chunk.split("\n");
    lines[0] = begun + lines[0];
    begun = lines.pop()!;
    for (const text of lines) {
      line++;
      if (text.trim() !== "") yield { line, text };
    }
  }
  if (begun.trim() !== "") yield { line: line + 1, text: begun };
}

/** One thing of a file, as JSON text. */
export interface TextEntry {
  line: number;
  text: string;
}

/** A file of the user's that is not there, or may not be read. */
export function unreadable(path: string, error: unknown): StatesetError {
  return new StatesetError("INVALID_DATA", `Could not read ${path}: ${messageOf(error)}.`, {
    hint: "Check the path: flags are relative to the working folder, paths in a configuration to that file.",
    cause: error,
  });
}
