/** POST /tokenize and /detokenize, under vLLM's names. */
import { z } from "zod";
import { openSession } from "../../agent/multi-turn-agent.ts";
import type { Exchange } from "../exchange.ts";
import { HttpError } from "../http-error.ts";
import { readFields } from "../read-fields.ts";
import { readMessages } from "./chat/read-messages.ts";
import { plainTool, variablesOf } from "./chat/read-request.ts";
import { chatRequestSchema } from "./chat/schema.ts";
import { encodeText, requireTokens, tokensSchema } from "./foreign-tokens.ts";
import { refused } from "./refused.ts";
import { requireShort } from "./text-limit.ts";

const { tools, chat_template_kwargs } = chatRequestSchema.shape;

export const tokenizeRequestSchema = z.strictObject({
  model: z.string().min(1),
  /** A text, or a conversation as /v1/chat/completions would show it to the model. */
  prompt: z.string().optional(),
  messages: z.array(z.unknown()).min(1).optional(),
  ...{ tools, chat_template_kwargs },
  /** Of a conversation: end with the opening of a reply. Default true. */
  add_generation_prompt: z.boolean().optional(),
  /** Of a text: begin it as the model's texts begin. Default true. */
  add_special_tokens: z.boolean().optional(),
  return_token_strs: z.boolean().optional(),
});

export const tokenizeSchema = z.object({
  count: z.int(),
  max_model_len: z.int(),
  tokens: z.array(z.int()),
  token_strs: z.array(z.string()).nullable(),
});

export async function answerTokenize(exchange: Exchange): Promise<z.output<typeof tokenizeSchema>> {
  const request = readFields(tokenizeRequestSchema, exchange.body, { ignored: exchange.ignored });
  const { prompt, messages, return_token_strs: spelt = false } = request;
  if ((prompt === undefined) === (messages === undefined)) {
    throw new HttpError(400, 'Give "prompt" or "messages", one of them.', { code: "invalid_value" });
  }
  const { agent, policy } = exchange.model(request.model);
  const { tokenizer } = policy;
  const texts = { tools: "messages", chat_template_kwargs: "messages", add_generation_prompt: "messages" } as const;
  for (const [name, other] of Object.entries({ ...texts, add_special_tokens: "prompt" } as const)) {
    if (request[name as keyof typeof texts] === undefined || request[other] !== undefined) continue;
    throw refused(name, `belongs to "${other}".`);
  }
  let tokens: Int32Array;
  if (prompt !== undefined)
    tokens = encodeText(prompt, { policy, bos: request.add_special_tokens ?? true, param: "prompt" });
  else {
    requireShort(messages, policy, "messages");
    requireShort([request.tools, request.chat_template_kwargs], policy, "tools");
    const shown = readMessages(messages!, exchange.ignored);
    const options = { tools: (request.tools ?? []).map(plainTool), sampling: agent.sampling, ...variablesOf(request) };
    const session = openSession(agent, options);
    const { add_generation_prompt: addGenerationPrompt = true } = request;
    const prepared = await session.prepare(shown, { signal: exchange.signal, addGenerationPrompt });
    if (!prepared) {
      const message = "The conversation does not fit the context of this model.";
      throw new HttpError(400, message, { code: "context_length_exceeded", param: "messages" });
    }
    tokens = prepared.tokens;
  }
  return {
    count: tokens.length,
    max_model_len: policy.model.contextLength,
    tokens: [...tokens],
    token_strs: spelt ? Array.from(tokens, (token) => tokenizer.decode([token], { skipSpecial: false })) : null,
  };
}

export const detokenizeRequestSchema = z.strictObject({ model: z.string().min(1), tokens: tokensSchema });

export const detokenizeSchema = z.object({ prompt: z.string() });

export function answerDetokenize(exchange: Exchange): z.output<typeof detokenizeSchema> {
  const { model, tokens } = readFields(detokenizeRequestSchema, exchange.body, { ignored: exchange.ignored });
  const { policy } = exchange.model(model);
  const ids = requireTokens(tokens, policy, "tokens");
  return { prompt: policy.tokenizer.decode(ids, { skipSpecial: false }) };
}
