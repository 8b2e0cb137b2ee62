/** Request and reply of /v1/completions. */
import { z } from "zod";
import { textsSchema } from "../foreign-tokens.ts";
import { samplingFields } from "../sampling-fields.ts";
import { usageSchema } from "../usage.ts";

/** Replies that one request may ask for: its prompts times n. */
export const mostChoices = 128;

export const completionRequestSchema = z.strictObject({
  model: z.string().min(1),
  prompt: textsSchema(mostChoices),
  ...samplingFields,
  /** 0: score the prompt alone. Default 16. */
  max_tokens: z.int().min(0).optional(),
  echo: z.boolean().optional(),
  logprobs: z.int().min(0).max(20).optional(),
  best_of: z.int().min(1).optional(),
  suffix: z.string().optional(),
  /** Begin texts as the model's texts begin, as vLLM names it. Default true. */
  add_special_tokens: z.boolean().optional(),
});

export type CompletionRequest = z.output<typeof completionRequestSchema>;

/** Fields of OpenAI's that have no effect here. */
export const ignoredCompletionFields = ["user"];

const tokenIds = z.array(z.int());

export const completionSchema = z.object({
  id: z.string(),
  object: z.literal("text_completion"),
  created: z.int(),
  model: z.string(),
  system_fingerprint: z.string(),
  choices: z.array(
    z.object({
      index: z.int(),
      text: z.string(),
      logprobs: z
        .object({
          tokens: z.array(z.string()),
          token_logprobs: z.array(z.number().nullable()),
          top_logprobs: z.array(z.record(z.string(), z.number()).nullable()),
          text_offset: z.array(z.int()),
        })
        .nullable(),
      finish_reason: z.enum(["stop", "length"]),
      prompt_token_ids: tokenIds.optional(),
      token_ids: tokenIds.optional(),
    }),
  ),
  usage: usageSchema,
});
