/** POST /ui/api/notes: what people say of a run. It stands in the run's notes.json. */
import { z } from "zod";

export const notesSchema = z.object({
  run: z.string(),
  tags: z.array(z.string()),
  note: z.string(),
  archived: z.boolean(),
  /** Milliseconds since 1970. */
  changedAt: z.number(),
});
export type NotesData = z.infer<typeof notesSchema>;

/** What is left out stays as it was. */
export const notesRequestSchema = z.strictObject({
  run: z.string().min(1).max(500),
  tags: z.array(z.string().trim().min(1).max(50)).max(50).optional(),
  note: z.string().max(10_000).optional(),
  archived: z.boolean().optional(),
  /** Sent twice, it is done once. */
  idempotencyKey: z.string().min(1).max(100).optional(),
});
