/** GET /ui/api/runs, /runs/:run and what lies below it but for series and conversations. */
import { z } from "zod";
import { estimateSchema, problemSchema, runStates } from "./shared.ts";

export const runsQuerySchema = z.strictObject({
  filter: z.string().max(1000).optional().describe("Words, or comparisons: `reward > 0.7 & algorithm = dapo`."),
  sort: z.string().max(200).optional().describe("A column or a setting; - before it: the largest first."),
  group: z.string().max(200).optional().describe("A column or a setting whose value each row is to name."),
  archived: z.enum(["only", "all"]).optional().describe("Left out: those that are not archived."),
  cursor: z.string().max(200).optional(),
});

export const runRowSchema = z.object({
  /** Names it in every address; the folder's name, unless several folders are shown. */
  key: z.string(),
  id: z.string(),
  /** In which of the folders that are shown it lies. */
  folder: z.number(),
  state: z.enum(runStates),
  /** In words, unless it runs or simply finished. */
  reason: z.string().nullable(),
  /** What of it could not be read. */
  problems: z.array(problemSchema),
  learner: z.string().nullable(),
  algorithm: z.string().nullable(),
  model: z.string().nullable(),
  seed: z.number().nullable(),
  step: z.number(),
  steps: z.number().nullable(),
  /** Milliseconds since 1970. */
  startedAt: z.number(),
  heartbeatAt: z.number().nullable(),
  /** Up to 60 points of what the run is looked at for. */
  curve: z.object({ metric: z.enum(["reward", "loss"]), points: z.array(z.number().nullable()) }),
  reward: z.number().nullable(),
  loss: z.number().nullable(),
  /** Before the first step and after the last, on scenarios (or data) held out. */
  heldOut: z
    .object({ metric: z.string(), before: estimateSchema.nullable(), after: estimateSchema.nullable() })
    .nullable(),
  tokensPerSecond: z.number().nullable(),
  tags: z.array(z.string()),
  note: z.string(),
  archived: z.boolean(),
  /** The value of what was asked to be grouped by. */
  group: z.string().optional(),
});
export type RunRow = z.infer<typeof runRowSchema>;

export const runsSchema = z.object({
  rows: z.array(runRowSchema),
  total: z.number(),
  next: z.string().nullable(),
  folders: z.array(z.object({ path: z.string(), exists: z.boolean() })),
  readOnly: z.boolean(),
  /** Names that can be filtered, sorted and grouped by. */
  fields: z.array(z.string()),
  problems: z.array(problemSchema),
});
export type RunsData = z.infer<typeof runsSchema>;

export const metricInfoSchema = z.object({
  name: z.string(),
  meaning: z.string(),
  unit: z.string(),
  /** Steps that have it, and its last value. */
  count: z.number(),
  last: z.number().nullable(),
});
export type MetricInfo = z.infer<typeof metricInfoSchema>;

/** What can be done from here; `why` says why not. */
export const controlSchema = z.object({
  possible: z.boolean(),
  why: z.string().nullable(),
  command: z.string().nullable(),
});

export const runSchema = runRowSchema.extend({
  dir: z.string(),
  metrics: z.array(metricInfoSchema),
  /** Steps whose conversations were kept. */
  recordedSteps: z.array(z.number()),
  files: z.array(z.object({ name: z.string(), bytes: z.number() })),
  checkpoints: z.array(z.object({ step: z.number(), best: z.boolean(), bytes: z.number() })),
  /** Milliseconds in all. */
  time: z.object({ rolloutMs: z.number(), updateMs: z.number(), otherMs: z.number() }),
  forkedFrom: z.object({ run: z.string(), step: z.number() }).nullable(),
  /** Notes, stop and resume are refused: to everybody, or to whoever asks. */
  readOnly: z.boolean(),
  /** `asked`: it was asked to stop, and is on its way. */
  stop: controlSchema.extend({ asked: z.boolean() }),
  resume: controlSchema,
});
export type RunData = z.infer<typeof runSchema>;

export const configSchema = z.object({
  /** config.json as it is; null where it cannot be read. */
  config: z.record(z.string(), z.unknown()).nullable(),
  /** Settings that are not what they are when nothing is said. */
  changed: z.array(z.object({ path: z.string(), value: z.unknown(), default: z.unknown() })),
  problems: z.array(problemSchema),
});
export type ConfigData = z.infer<typeof configSchema>;

/** The lines of events.jsonl that are marks on a curve: all but steps, updates and rollouts. `type` tells them apart as RunEvent does. */
export const eventsSchema = z.object({
  events: z.array(z.looseObject({ seq: z.number().nullable(), step: z.number(), type: z.string() })),
  problems: z.array(problemSchema),
});
export type EventsData = z.infer<typeof eventsSchema>;

export const scenarioScoreSchema = z.object({
  id: z.string(),
  mean: z.number().nullable(),
  spread: z.number().nullable(),
  samples: z.number(),
  failed: z.number(),
});

export const evaluationSchema = z.object({
  step: z.number(),
  set: z.enum(["selection", "report", "held-out"]),
  weightsOf: z.number().nullable(),
  reward: estimateSchema.nullable(),
  parts: z.record(z.string(), z.number().nullable()),
  /** Of an evaluation on data. */
  numbers: z.record(z.string(), z.number().nullable()),
  failed: z.number(),
  lost: z.number(),
  failures: z.array(z.string()),
  scenarios: z.array(scenarioScoreSchema),
});
export type EvaluationData = z.infer<typeof evaluationSchema>;

/** A scenario before and after: the first and the last evaluation of one set. */
export const scenarioChangeSchema = z.object({
  id: z.string(),
  before: estimateSchema,
  after: estimateSchema,
  change: z.number().nullable(),
  failed: z.number(),
});

export const evaluationsSchema = z.object({
  evaluations: z.array(evaluationSchema),
  changes: z.array(
    z.object({
      set: z.enum(["selection", "report"]),
      from: z.number(),
      to: z.number(),
      /** Of after − before over the scenarios, by the paired test. */
      difference: estimateSchema,
      pValue: z.number().nullable(),
      /** Sorted by change, the worst first. */
      scenarios: z.array(scenarioChangeSchema),
    }),
  ),
  problems: z.array(problemSchema),
});
export type EvaluationsData = z.infer<typeof evaluationsSchema>;
