/** The plain options of a policy, checked in one place for agents, engines and files. */
import { z } from "zod";

/** Complete; agents take parts of it. */
export const samplingSchema = z.strictObject({
  temperature: z.number().min(0).max(100),
  topP: z.number().gt(0).max(1),
  topK: z.int().min(0),
  minP: z.number().min(0).max(1),
  repetitionPenalty: z.number().gt(0),
  presencePenalty: z.number().min(-2).max(2).optional(),
  frequencyPenalty: z.number().min(-2).max(2).optional(),
  logitBias: z.record(z.string().regex(/^\d+$/, "not a token id"), z.number().min(-100).max(100)).optional(),
  maxTokens: z.int().min(1),
  minTokens: z.int().min(0).optional(),
  stop: z.array(z.string().min(1)),
  stopTokens: z.array(z.int().min(0)),
});

export const loraSchema = z.strictObject({
  rank: z.int().min(1),
  alpha: z.number().positive(),
  alphaPattern: z.record(z.string().min(1), z.number().positive()).optional(),
  dropout: z.number().min(0).lt(1),
  targetModules: z.union([z.literal("all-linear"), z.array(z.string().min(1)).min(1)]),
});
