/** notes.json: what people say of a run. No run reads it, and it is no part of what a run is compared by. */
import { existsSync } from "node:fs";
import { writeJsonAtomic } from "../durable.ts";
import { messageOf, StatesetError } from "../error.ts";
import { readPlainText } from "../plain-file.ts";
import { pathIn } from "./layout.ts";

export interface RunNotes {
  version: 1;
  /** In the order they were given, each once. */
  tags: string[];
  note: string;
  /** Put away: not in lists unless asked for. */
  archived: boolean;
  /** Milliseconds since 1970; 0: nobody has said anything yet. */
  changedAt: number;
}

const longest = { tag: 50, tags: 50, note: 10_000 };

const none: RunNotes = { version: 1, tags: [], note: "", archived: false, changedAt: 0 };

/** What is said of a run; `problem` says what of the file could not be read, and what could is there. */
export function readNotes(dir: string): RunNotes & { problem?: string } {
  const path = pathIn(dir, "notes");
  if (!existsSync(path)) return { ...none, tags: [] };
  try {
    const value = JSON.parse(readPlainText(path)) as Partial<Record<keyof RunNotes, unknown>> | null;
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("it holds no object");
    const { version, tags = [], note = "", archived = false, changedAt = 0 } = value;
    const fits = {
      tags: Array.isArray(tags) && tags.every((tag) => typeof tag === "string"),
      note: typeof note === "string",
      archived: typeof archived === "boolean",
      changedAt: Number.isFinite(changedAt),
    };
    const wrong = Object.entries(fits).flatMap(([name, fit]) => (fit ? [] : [`"${name}"`]));
    const newer = version !== 1 ? `it is of version ${JSON.stringify(version)}, not 1` : undefined;
    const problem = newer ?? (wrong.length > 0 ? `${wrong.join(", ")} is not what it should be` : undefined);
    return {
      version: 1,
      tags: fits.tags ? [...new Set(tags as string[])] : [],
      note: fits.note ? (note as string) : "",
      archived: fits.archived ? (archived as boolean) : false,
      changedAt: fits.changedAt ? (changedAt as number) : 0,
      ...(problem !== undefined && { problem: `${path}: ${problem}.` }),
    };
  } catch (error) {
    return { ...none, tags: [], problem: `${path} cannot be read: ${messageOf(error)}.` };
  }
}

/** Changes some of it and returns the whole as it is written. What is left out stays, as far as it can be read. */
export function writeNotes(dir: string, change: Partial<Pick<RunNotes, "tags" | "note" | "archived">>): RunNotes {
  const { problem: _, ...before } = readNotes(dir);
  const { tags = before.tags, note = before.note, archived = before.archived } = change;
  const words = [...new Set(tags.map((tag) => tag.trim()))];
  refuse(words, note);
  // Later than the change before, also where the clock went back: whoever shows it knows by that what is newer.
  const changedAt = Math.max(Date.now(), before.changedAt + 1);
  const notes: RunNotes = { version: 1, tags: words, note, archived, changedAt };
  writeJsonAtomic(pathIn(dir, "notes"), notes);
  return notes;
}

function refuse(tags: readonly string[], note: string): void {
  const wrong = tags.find((tag) => tag === "" || tag.length > longest.tag);
  const message =
    wrong !== undefined
      ? `A tag has 1 to ${longest.tag} characters; ${JSON.stringify(wrong.slice(0, 60))} has ${wrong.length}.`
      : tags.length > longest.tags
        ? `A run has ${longest.tags} tags at most, not ${tags.length}.`
        : note.length > longest.note
          ? `A note has ${longest.note} characters at most, not ${note.length}.`
          : undefined;
  if (message !== undefined) throw new StatesetError("INVALID_OPTION", message);
}
