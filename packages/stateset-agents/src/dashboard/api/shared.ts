/** Shapes that several answers have. This folder imports zod and nothing else: the page is compiled against it. */
import { z } from "zod";

/** A mean and, where it rests on enough, its 95% interval. */
export const estimateSchema = z.object({
  mean: z.number().nullable(),
  low: z.number().optional(),
  high: z.number().optional(),
  count: z.number(),
});
export type EstimateData = z.infer<typeof estimateSchema>;

export const runStates = ["running", "finished", "stopped-early", "interrupted", "failed", "lost"] as const;
export type RunStateName = (typeof runStates)[number];

/** What could not be read, and where: shown in place of it. */
export const problemSchema = z.object({ where: z.string(), message: z.string() });
export type ProblemData = z.infer<typeof problemSchema>;
