/** GET /ui/api/runs/:run/trajectories, /runs/:run/live, /groups/:group, /trajectories/:trajectory and its tokens. */
import { z } from "zod";
import { problemSchema } from "./shared.ts";

export const trajectoriesQuerySchema = z.strictObject({
  step: z.string().regex(/^\d+$/, "expected a whole number").optional(),
  scenario: z.string().max(500).optional(),
  scenarioHas: z.string().max(500).optional().describe("Part of a scenario's name, in any case of letters."),
  /** `>0.5`, `<=0`, `0.2..0.8`, `1` */
  reward: z.string().max(60).optional(),
  failed: z.enum(["only", "none"]).optional(),
  text: z.string().max(500).optional().describe("What somebody said in it, in any case of letters."),
  set: z.enum(["training", "evaluation"]).optional().describe("Left out: training."),
  sort: z.enum(["step", "-step", "reward", "-reward"]).optional(),
  cursor: z.string().max(200).optional(),
});

export const trajectoryRowSchema = z.object({
  /** Names it in every address. */
  key: z.string(),
  id: z.string(),
  run: z.string(),
  step: z.number(),
  scenario: z.string().nullable(),
  /** The key of its group (or pair), and the group's own id. */
  group: z.string().nullable(),
  groupId: z.string().nullable(),
  reward: z.number().nullable(),
  breakdown: z.record(z.string(), z.number().nullable()),
  ended: z.string().nullable(),
  failure: z.string().nullable(),
  leftOut: z.enum(["lost", "dropped", "refused"]).nullable(),
  side: z.enum(["chosen", "rejected"]).nullable(),
  replies: z.number(),
  tokens: z.number(),
  hasTokens: z.boolean(),
  /** The beginning of the last reply. */
  snippet: z.string(),
});
export type TrajectoryRow = z.infer<typeof trajectoryRowSchema>;

export const trajectoriesSchema = z.object({
  rows: z.array(trajectoryRowSchema),
  /** Undefined where finding out would mean reading on. */
  total: z.number().nullable(),
  next: z.string().nullable(),
  problems: z.array(problemSchema),
});
export type TrajectoriesData = z.infer<typeof trajectoriesSchema>;

export const trajectorySchema = trajectoryRowSchema.extend({
  /** The line as it stands in the file: a ConversationRecord. */
  record: z.looseObject({ messages: z.array(z.looseObject({ role: z.string(), content: z.string() })) }),
  /** Its neighbours in the step, by key. */
  previous: z.string().nullable(),
  next: z.string().nullable(),
  steps: z.object({ previous: z.string().nullable(), next: z.string().nullable() }),
  /** The algorithm of its run; where it clips ratios token by token, between which they move freely (1 − ε, 1 + ε). */
  algorithm: z.string().nullable(),
  clip: z.object({ low: z.number().nullable(), high: z.number().nullable() }).nullable(),
});
export type TrajectoryData = z.infer<typeof trajectorySchema>;

/**
 * GET /trajectories/:trajectory/tokens, packed. Columns, a number a token over all chains: `tokens` i32, `learn` u8, `turn` i32, `logprobs` f32;
 * NaN where it is not known or does not learn: `advantage`, `ratio`, `entropy`, `reference`, `value`, `samplerLogprobs` f32, each only where the
 * run has it; `clipped` u8 where ratios are clipped token by token.
 */
export interface TokensHead {
  chains: {
    from: number;
    length: number;
    /** Why it began instead of the one before going on. */
    started: string | null;
    versions: Record<string, string>;
  }[];
  /** What the ids spell. */
  pieces: Piece[];
  /** Where the tokenizer came from; null: none was found, and ids are all there is (`why` says what was tried). */
  tokenizer: string | null;
  why: string | null;
}

export interface Piece {
  id: number;
  /** Undefined where it is no whole character; then `bytes`. */
  text?: string;
  bytes?: number[];
  /** A control token. */
  special?: true;
}

export const groupSchema = z.object({
  key: z.string(),
  id: z.string(),
  run: z.string(),
  step: z.number(),
  scenario: z.string().nullable(),
  algorithm: z.string().nullable(),
  /** Its neighbours in the step, by key. */
  previous: z.string().nullable(),
  next: z.string().nullable(),
  members: z.array(
    trajectoryRowSchema.extend({
      /** Of the tokens that learn; null where they were not recorded. */
      advantage: z.object({ sum: z.number(), mean: z.number(), min: z.number(), max: z.number() }).nullable(),
      learnTokens: z.number(),
      clippedShare: z.number().nullable(),
      messages: z.array(z.looseObject({ role: z.string(), content: z.string() })),
    }),
  ),
  /** Chains that share a beginning, as a tree; parents come first. Null without tokens. */
  tree: z
    .array(
      z.object({
        parent: z.number(),
        tokens: z.number(),
        /** Cut after 2,000 characters. */
        text: z.string(),
        /** Indices of the members that pass through. */
        members: z.array(z.number()),
      }),
    )
    .nullable(),
  /** "Why this advantage": the formula of the run's algorithm, and with the numbers of this group. */
  why: z
    .object({
      formula: z.string(),
      lines: z.array(z.string()),
      members: z.array(z.string()),
      note: z.string().nullable(),
    })
    .nullable(),
  problems: z.array(problemSchema),
});
export type GroupData = z.infer<typeof groupSchema>;

/** A line of live.jsonl as the page sees it. */
export const liveConversationSchema = z.object({
  run: z.string(),
  seq: z.number(),
  step: z.number(),
  /** Milliseconds since 1970. */
  at: z.number(),
  id: z.string(),
  scenario: z.string().nullable(),
  group: z.string(),
  ended: z.string().nullable(),
  failure: z.string().nullable(),
  /** Null until its group was rewarded. */
  reward: z.number().nullable(),
  breakdown: z.record(z.string(), z.number().nullable()),
  messages: z.array(z.looseObject({ role: z.string(), content: z.string() })),
});
export type LiveConversation = z.infer<typeof liveConversationSchema>;

export const liveConversationsSchema = z.object({
  conversations: z.array(liveConversationSchema),
  problems: z.array(problemSchema),
});
export type LiveConversationsData = z.infer<typeof liveConversationsSchema>;
