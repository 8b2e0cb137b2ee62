/** What every learner can be told about its run. */
import { z } from "zod";
import type { RunCallbacks } from "./callbacks.ts";
import { placeShape } from "./place.ts";
import { type Tracker, trackersProblem } from "./tracker.ts";

/** `every` is the default: a round of conversations takes longer than a batch of examples. */
export function checkpointSchema(every: number) {
  return z
    .strictObject({
      every: z.int().min(0).default(every).describe("Steps between checkpoints; 0: only at the end."),
      keep: z.int().min(1).default(3).describe("How many of the newest stay; the best stays as well."),
    })
    .prefault({});
}

/** `perStep` counts groups of conversations, or examples: `what` says which. */
export function trajectoriesSchema({ every, perStep, what }: { every: number; perStep: number; what: string }) {
  return z
    .strictObject({
      every: z
        .int()
        .min(0)
        .default(every)
        .describe("Steps between samples of what is learnt from, written to the run; 0: none."),
      perStep: z.int().min(1).default(perStep).describe(what),
      tokens: z
        .boolean()
        .default(true)
        .describe(
          "Also their tokens, in a file beside, with what is known of each: log-probs, advantage, ratio, entropy, …",
        ),
    })
    .prefault({});
}

const isObject = (value: unknown) => typeof value === "object" && value !== null;

/** Where it is kept, who looks on, and how it is stopped: spread into the strict schemas of those that learn from data. */
export const runShape = {
  ...placeShape,
  callbacks: z
    .custom<RunCallbacks | readonly RunCallbacks[]>(
      (value) => [value].flat().every(isObject),
      "expected callbacks or a list of them",
    )
    .optional()
    .describe("Told what happens; see RunCallbacks."),
  progress: z
    .boolean()
    .optional()
    .describe(
      "Shows how it goes on stderr: the live view on a terminal, a line a step elsewhere. Left out: it does not.",
    ),
  trackers: z
    .custom<readonly Tracker[]>()
    .superRefine((value, context) => {
      const problem = trackersProblem(value);
      if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
    })
    .optional()
    .describe("Where the numbers go beside the run's own files."),
  signal: z
    .instanceof(AbortSignal)
    .optional()
    .describe('Aborting it stops the run within a pass; what was done is saved, and the status is "interrupted".'),
} as const;

export type RunChoice = z.output<z.ZodObject<typeof runShape>>;
