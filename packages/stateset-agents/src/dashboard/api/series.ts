/** GET /ui/api/runs/:run/series and /compare/series: curves as columns of numbers (packed.ts). */
import { z } from "zod";
import { estimateSchema, problemSchema } from "./shared.ts";

export const mostPoints = 5000;
export const axes = ["step", "time", "tokens"] as const;
export type Axis = (typeof axes)[number];

const numberText = z.string().regex(/^-?\d+(\.\d+)?(e[+-]?\d{1,3})?$/, "expected a number");

export const seriesQuerySchema = z.strictObject({
  /** Separated by commas; a name that holds one is written with %2C once more. */
  metrics: z.string().min(1).max(4000),
  x: z.enum(axes).optional().describe("Left out: step. time: seconds of work; tokens: sampled so far."),
  from: numberText.optional(),
  to: numberText.optional(),
  points: z.string().regex(/^\d+$/, "expected a whole number").optional().describe("At most; left out: 1,000."),
});

/**
 * Each metric has the columns `<name>.x` (f64), `.min`, `.max`, `.mean` (f32): a point a step where these fit, otherwise of `span` steps each.
 * A step without the metric has no point; a number that was not finite is NaN.
 */
export interface SeriesHead {
  x: Axis;
  /** Said where more points were asked for than are given. */
  capped: boolean;
  metrics: { name: string; span: number }[];
}

export const compareQuerySchema = z.strictObject({
  /** Keys, separated by commas. */
  runs: z.string().min(1).max(8000),
});

export const compareSeriesQuerySchema = compareQuerySchema.extend({
  metric: z.string().min(1).max(200).optional().describe("Left out: what runs are looked at for first."),
  x: z.enum(axes).optional(),
  points: seriesQuerySchema.shape.points,
  fold: z
    .enum(["seeds"])
    .optional()
    .describe("Runs that differ by their seed alone become one: mean and 95% interval."),
  base: z.string().max(200).optional().describe("The key of a run: curves become differences from its family."),
});

/**
 * Columns of family i: `i.mean`, and `i.low`, `i.high` where there is an interval anywhere (f32, NaN where there is none); `x` names the one
 * that has where they stand (f64): families of equal steps share it.
 */
export interface CompareSeriesHead {
  metric: string;
  /** As SeriesHead's. */
  capped: boolean;
  families: { name: string; runs: string[]; x: string }[];
}

export const compareSchema = z.object({
  runs: z.array(z.object({ key: z.string(), id: z.string() })),
  /** Settings that differ: a value a run, null where it is not set. */
  settings: z.array(z.object({ path: z.string(), values: z.array(z.unknown()) })),
  metrics: z.array(z.string()),
  /** Before the first step and after the last: `report/reward`, `held-out/loss`, …; null where the run was not evaluated. */
  heldOut: z.array(
    z.object({
      key: z.string(),
      metric: z.string().nullable(),
      algorithm: z.string().nullable(),
      before: estimateSchema.nullable(),
      after: estimateSchema.nullable(),
    }),
  ),
  /** After the last step, by the paired test over the scenarios both have; `unlike`: what makes the numbers of two runs no test of which is better. */
  pairs: z.array(
    z.object({
      a: z.string(),
      b: z.string(),
      unlike: z.enum(["rewards", "scenarios"]).nullable(),
      difference: estimateSchema,
      pValue: z.number().nullable(),
      verdict: z.enum(["a", "b", "same", "unknown"]),
    }),
  ),
  /** A mean a run, null where it has none; sorted by how far the runs are apart. */
  scenarios: z.array(z.object({ id: z.string(), values: z.array(z.number().nullable()) })),
  problems: z.array(problemSchema),
});
export type CompareData = z.infer<typeof compareSchema>;
