import { appendFileSync, existsSync, mkdirSync, readFileSync, truncateSync } from "node:fs";
import { dirname } from "node:path";
import { z } from "zod";
import { messageOf, StatesetError } from "../error.ts";

export interface AnswerCache {
  get(key: string): string | undefined;
  set(key: string, text: string): void;
  readonly size: number;
}

const line = z.strictObject({ key: z.string(), text: z.string() });

/**
 * Answers in memory, and in a JSONL file when one is named: one answer a line, appended as it arrives, so that a killed run
 * keeps what it paid for. A last line cut short by a crash is dropped; damage elsewhere is an error.
 */
export function createAnswerCache(file?: string): AnswerCache {
  const answers = new Map<string, string>();
  if (file !== undefined && existsSync(file)) {
    const content = readFileSync(file, "utf8");
    const whole = content.slice(0, content.lastIndexOf("\n") + 1);
    if (whole.length < content.length) truncateSync(file, Buffer.byteLength(whole));
    for (const [i, text] of whole.split("\n").entries()) {
      if (text.trim() === "") continue;
      const entry = readLine(text);
      if (entry) answers.set(entry.key, entry.text);
      else {
        throw new StatesetError("INVALID_DATA", `The judge's cache ${file} is damaged at line ${i + 1}.`, {
          hint: "Delete that line, or the file, and run again.",
        });
      }
    }
  }
  return {
    get: (key) => answers.get(key),
    set(key, text) {
      answers.set(key, text);
      if (file === undefined) return;
      try {
        mkdirSync(dirname(file), { recursive: true });
        appendFileSync(file, `${JSON.stringify({ key, text })}\n`);
      } catch (thrown) {
        throw new StatesetError(
          "WRITE_FAILED",
          `The judge's cache ${file} could not be written: ${messageOf(thrown)}.`,
          {
            cause: thrown,
          },
        );
      }
    },
    get size() {
      return answers.size;
    },
  };
}

function readLine(text: string): { key: string; text: string } | undefined {
  try {
    return line.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}
