/** Numbers of runs: shares of held-out tasks, by class, with intervals over tasks. */
import { type Estimate, estimateMean } from "stateset-agents/telemetry";
import { taskClasses } from "stateset-agents/tools";
import type { JobRow } from "../parallel.ts";
import type { Elsewhere, Learnt, ToolsJob, ToolsResult } from "./learn.ts";
import { samples } from "./task.ts";

export type ToolsRun = JobRow<ToolsJob, Learnt>;
export type ElsewhereRun = JobRow<ToolsJob, Elsewhere>;

export function isElsewhere(row: JobRow<ToolsJob, ToolsResult>): row is ElsewhereRun {
  return "dialogues" in row.result;
}

export function isLearnt(row: JobRow<ToolsJob, ToolsResult>): row is ToolsRun {
  return "solved" in row.result;
}

export const columns = [...taskClasses, "all"] as const;
export type Column = (typeof columns)[number];

/** Success: the share of samples. pass^4: whether all of them. */
const measures = {
  success: (solved: number) => solved / samples,
  every: (solved: number) => Number(solved === samples),
} as const;
export type Measure = keyof typeof measures;

/** A value a task, mean over the seeds: what intervals and paired tests are over. */
export function perTask(runs: readonly ToolsRun[], column: Column, measure: Measure = "success"): number[] {
  const tasks = runs[0]?.result.solved.length ?? 0;
  return Array.from({ length: tasks }, (_, i) => i)
    .filter((i) => column === "all" || taskClasses[i % taskClasses.length] === column)
    .map((i) => mean(runs.map(({ result }) => measures[measure](result.solved[i]!))));
}

export function estimate(runs: readonly ToolsRun[], column: Column, measure?: Measure): Estimate {
  return estimateMean(perTask(runs, column, measure));
}

export function mean(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0) / values.length;
}

/** Runs that differ in their seeds alone, in the order in which they stand. */
export function grouped<T>(all: readonly T[], key: (one: T) => string): T[][] {
  const groups = new Map<string, T[]>();
  for (const one of all) groups.set(key(one), [...(groups.get(key(one)) ?? []), one]);
  return [...groups.values()];
}
