/** What people say of a run, as the page sends it: the same change sent twice is done once. */
import type { z } from "zod";
import { StatesetError } from "../../error.ts";
import { type RunNotes, writeNotes } from "../../run/notes.ts";
import { HttpError } from "../../server/http-error.ts";
import type { NotesData, notesRequestSchema } from "../api/index.ts";

export interface Notes {
  write(change: z.output<typeof notesRequestSchema>): Promise<NotesData>;
}

/** Keys whose answers are remembered. */
const mostKept = 1000;

export function createNotes(dirOf: (run: string) => Promise<string>): Notes {
  const done = new Map<string, Promise<NotesData>>();
  return {
    write({ idempotencyKey: key, run, ...change }) {
      const known = key === undefined ? undefined : done.get(key);
      if (known) return known;
      const row = dirOf(run).then((dir) => {
        const { tags, note, archived, changedAt } = written(dir, change);
        return { run, tags, note, archived, changedAt };
      });
      if (key === undefined) return row;
      done.set(key, row);
      if (done.size > mostKept) done.delete(done.keys().next().value!);
      // What failed may be tried again.
      row.catch(() => done.delete(key));
      return row;
    },
  };
}

const reasons: Record<string, string> = {
  ENOSPC: "the disk is full",
  EDQUOT: "the disk is full",
};

function written(dir: string, change: { [K in "tags" | "note" | "archived"]?: RunNotes[K] | undefined }): RunNotes {
  const { tags, note, archived } = change;
  try {
    return writeNotes(dir, {
      ...(tags !== undefined && { tags }),
      ...(note !== undefined && { note }),
      ...(archived !== undefined && { archived }),
    });
  } catch (cause) {
    if (!StatesetError.isInstance(cause) || cause.code !== "WRITE_FAILED") throw cause;
    const why = (cause.cause as NodeJS.ErrnoException | undefined)?.code ?? "";
    const message = `The run's folder cannot be written: ${reasons[why] ?? why}. What was there before is intact.`;
    throw new HttpError(500, message, { code: "write_failed", cause });
  }
}
