import { z } from "zod";

/** How much a constrained call may hold: without bounds a model that never closes a string would write until it is cut. */
export const constrainLimitsSchema = z.strictObject({
  /** Characters of a string, where the schema does not ask for more. */
  maxLength: z.int().min(1).max(4096).default(128),
  /** Items of a list, where the schema does not ask for more. */
  maxItems: z.int().min(1).max(256).default(8),
  /** How often a schema that refers to itself is followed. */
  maxDepth: z.int().min(1).max(16).default(3),
});

/** For who compiles constraints by hand `maxLength` may be Infinity: then only the token limit ends a string, and it costs a few states. */
export type ConstrainLimits = z.output<typeof constrainLimitsSchema>;

/** Characters of a string that a pattern is followed through, where nothing says how many. */
export const patternLength = 128;

export const constrainSchema = z.union(
  [z.boolean(), constrainLimitsSchema.partial()],
  "true, false or { maxLength, maxItems, maxDepth } was expected",
);
/** `true` for the default limits. */
export type Constrain = z.input<typeof constrainSchema>;

export function readLimits(constrain: Constrain): ConstrainLimits {
  return constrainLimitsSchema.parse(typeof constrain === "boolean" ? {} : constrain);
}
