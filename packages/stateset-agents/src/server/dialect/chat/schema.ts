/** The request of /v1/chat/completions. */
import { z } from "zod";
import { samplingFields } from "../sampling-fields.ts";

const functionTool = z.strictObject({
  type: z.literal("function"),
  function: z.strictObject({
    name: z.string().regex(/^[\w-]{1,64}$/, "1 to 64 letters, digits, _ and - were expected"),
    description: z.string().nullish(),
    parameters: z
      .record(z.string(), z.unknown())
      .refine(({ type = "object" }) => [type].flat().includes("object"), 'a schema of type "object" was expected')
      .nullish(),
    strict: z.boolean().nullish(),
  }),
});

const jsonSchemaFormat = z.strictObject({
  type: z.literal("json_schema"),
  json_schema: z.strictObject({
    name: z.string().min(1).max(64),
    description: z.string().nullish(),
    schema: z.record(z.string(), z.unknown()).nullish(),
    strict: z.boolean().nullish(),
  }),
});

export const chatRequestSchema = z.strictObject({
  model: z.string().min(1),
  /** Read by validateMessages(), whose errors say more. */
  messages: z.array(z.unknown()).min(1),
  ...samplingFields,
  max_completion_tokens: z.int().min(1).optional(),
  logprobs: z.boolean().optional(),
  top_logprobs: z.int().min(0).max(20).optional(),
  tools: z.array(functionTool).max(128).optional(),
  tool_choice: z
    .union([
      z.enum(["none", "auto", "required"]),
      z.strictObject({ type: z.literal("function"), function: z.strictObject({ name: z.string() }) }),
    ])
    .optional(),
  parallel_tool_calls: z.boolean().optional(),
  response_format: z
    .discriminatedUnion("type", [
      z.strictObject({ type: z.literal("text") }),
      z.strictObject({ type: z.literal("json_object") }),
      jsonSchemaFormat,
    ])
    .optional(),
  /** What the chat template is told beside, as vLLM names it. */
  chat_template_kwargs: z.record(z.string(), z.unknown()).optional(),
  /** Text is all there is. */
  modalities: z.array(z.literal("text")).optional(),
});

export type ChatRequest = z.output<typeof chatRequestSchema>;

/** Fields of OpenAI's that have no effect here; each is said in `x-stateset-ignored`. */
export const ignoredChatFields = [
  ...["audio", "metadata", "moderation", "prediction", "prompt_cache_key", "prompt_cache_retention"],
  ...["prompt_cache_options", "reasoning_effort", "safety_identifier", "service_tier", "store", "user", "verbosity"],
  ...["web_search_options"],
];
