/** The reply of /v1/chat/completions, for openapi.json. */
import { z } from "zod";
import { usageSchema } from "../usage.ts";

const logprob = z.object({ token: z.string(), logprob: z.number(), bytes: z.array(z.int()).nullable() });

const call = z.object({
  id: z.string(),
  type: z.literal("function"),
  function: z.object({ name: z.string(), arguments: z.string() }),
});

export const chatCompletionSchema = z.object({
  id: z.string(),
  object: z.literal("chat.completion"),
  created: z.int(),
  model: z.string(),
  system_fingerprint: z.string(),
  choices: z.array(
    z.object({
      index: z.int(),
      message: z.object({
        role: z.literal("assistant"),
        content: z.string().nullable(),
        refusal: z.null(),
        reasoning_content: z.string().optional(),
        tool_calls: z.array(call).optional(),
      }),
      logprobs: z
        .object({ content: z.array(logprob.extend({ top_logprobs: z.array(logprob) })), refusal: z.null() })
        .nullable(),
      finish_reason: z.enum(["stop", "length", "tool_calls"]),
      token_ids: z.array(z.int()).optional(),
    }),
  ),
  usage: usageSchema,
  prompt_token_ids: z.array(z.int()).optional(),
});
