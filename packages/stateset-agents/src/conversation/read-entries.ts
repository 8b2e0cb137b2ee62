import { z } from "zod";
import { messageOf, StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";
import { readLines } from "./read-lines.ts";

/** How a file of many lines is read. */
export interface ReadOptions {
  /** Leave out what cannot be read and go on, in place of stopping there; how much and why is said at the end. Default false. */
  skipBad?: boolean | undefined;
  /** Told at the end what was left out. Without it, a warning of the process says so. */
  onSkipped?: ((skipped: SkippedLines) => void) | undefined;
}

/** What of a file was left out. */
export interface SkippedLines {
  path: string;
  skipped: number;
  /** How many there were with these. */
  of: number;
  /** What was wrong with the first few, each with file and line. */
  problems: readonly string[];
}

const schema = z.strictObject({
  skipBad: z.boolean().default(false),
  onSkipped: z
    .custom<NonNullable<ReadOptions["onSkipped"]>>((value) => typeof value === "function", "a function was expected")
    .optional(),
});

const problemsNamed = 3;

/** Reads the entries of one file, and keeps count of those that are left out. */
export class EntryReader {
  readonly #path: string;
  readonly #options: z.output<typeof schema>;
  readonly #problems: string[] = [];
  #skipped = 0;
  #of = 0;

  /** `who` is named where an option is wrong. */
  constructor(path: string, options: ReadOptions, who: string) {
    this.#path = path;
    this.#options = parseOptions(schema, options, who);
  }

  /** What `read` makes of an entry; undefined where it is left out. */
  take<T>(read: () => T): T | undefined {
    this.#of++;
    try {
      return read();
    } catch (error) {
      if (!this.#options.skipBad || !StatesetError.isInstance(error)) throw error;
      this.#skipped++;
      if (this.#problems.length < problemsNamed) this.#problems.push(error.message);
      return undefined;
    }
  }

  /** At the end of the file: says what was left out. A file of which nothing is left is an error. */
  end(): void {
    if (this.#skipped === 0) return;
    const [path, skipped, of, problems] = [this.#path, this.#skipped, this.#of, this.#problems];
    if (skipped === of) {
      throw new StatesetError("INVALID_DATA", `Nothing in ${path} can be read. ${problems[0]}`);
    }
    const { onSkipped } = this.#options;
    if (onSkipped) onSkipped({ path, skipped, of, problems });
    else
      process.emitWarning(skippedText({ path, skipped, of, problems }), { type: "StatesetWarning", code: "SKIPPED" });
  }
}

/** For people. */
export function skippedText({ path, skipped, of, problems }: SkippedLines): string {
  const more = skipped > problems.length ? ` … and ${skipped - problems.length} more.` : "";
  return `${skipped} of ${of} entries of ${path} were left out: ${problems.join(" ")}${more}`;
}

/** What `read` makes of each line of a JSONL file, one by one: memory use does not grow. `where` names file and line. */
export async function* readEntries<T>(
  path: string,
  read: (value: unknown, where: string, line: number) => T,
  options: ReadOptions,
  who: string,
): AsyncGenerator<T> {
  const reader = new EntryReader(path, options, who);
  for await (const { line, text } of readLines(path)) {
    const where = `${path}, line ${line}`;
    const entry = reader.take(() => ({ value: read(parseJsonLine(text, where), where, line) }));
    if (entry) yield entry.value;
  }
  reader.end();
}

/** `where` names the line in errors. */
export function parseJsonLine(text: string, where: string): unknown {
  return parseJson(text, where, { hint: "Each line holds one JSON object." });
}

export function parseJson(text: string, where: string, details: { hint?: string } = {}): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const what = `${where}: not valid JSON (${messageOf(error)}).`;
    throw new StatesetError("INVALID_DATA", what, { ...details, cause: error });
  }
}
