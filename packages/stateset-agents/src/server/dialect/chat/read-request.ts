/** What a request of /v1/chat/completions asks for. */
import { callId } from "../../../agent/read-reply.ts";
import type { Message } from "../../../conversation/message.ts";
import { templateVariablesSchema } from "../../../conversation/template-variables.ts";
import type { ToolDefinition } from "../../../conversation/tool-definition.ts";
import { StatesetError } from "../../../error.ts";
import { type ByteAutomaton, type Sampling, shortened } from "../../../policy/policy.ts";
import type { ToolChoice } from "../../../tool/constrain/compile-constraint.ts";
import { type ConstrainLimits, readLimits } from "../../../tool/constrain/limits.ts";
import type { JsonSchema } from "../../../tool/schema/compile-schema.ts";
import type { Exchange } from "../../exchange.ts";
import { readFields } from "../../read-fields.ts";
import type { ServedModel } from "../../served-model.ts";
import { refused } from "../refused.ts";
import { requireLengths, samplingOf, seedOfField } from "../sampling-fields.ts";
import { requireShort } from "../text-limit.ts";
import { readMessages } from "./read-messages.ts";
import { type ChatRequest, chatRequestSchema, ignoredChatFields } from "./schema.ts";

export interface ChatCall {
  model: ServedModel;
  request: ChatRequest;
  messages: Message[];
  /** Those the model is shown. */
  tools: ToolDefinition[];
  sampling: Sampling;
  seed: number;
  n: number;
  constraint: ByteAutomaton | undefined;
  /** Undefined: none are asked for. */
  topLogprobs: number | undefined;
  /** Of the calls of a reply, by their place in it. */
  callId(index: number): string;
}

/** Texts of an answer may be as long as the reply; its token limit ends them. */
const answerLimits: ConstrainLimits = { ...readLimits(true), maxLength: Number.POSITIVE_INFINITY, maxItems: 16 };

export async function readChat(exchange: Exchange): Promise<ChatCall> {
  const { body, ignored } = exchange;
  const request = readFields(chatRequestSchema, body, { known: ignoredChatFields, ignored });
  if (request.stream_options !== undefined && !request.stream) {
    throw refused("stream_options", 'is for streams: set "stream" to true.');
  }
  if (request.top_logprobs !== undefined && !request.logprobs) {
    throw refused("top_logprobs", 'needs "logprobs" to be true.');
  }
  const model = exchange.model(request.model);
  const { agent, policy } = model;
  const own = samplingOf(request, agent.sampling, policy.model.vocabSize);
  const maxTokens = request.max_completion_tokens ?? request.max_tokens ?? own.maxTokens;
  requireLengths(request, maxTokens);
  const tools = request.tool_choice === "none" ? [] : (request.tools ?? []).map(plainTool);
  requireShort(request.messages, policy, "messages");
  requireShort([tools, request.chat_template_kwargs], policy, "tools");
  const messages = readMessages(request.messages, ignored);
  return {
    model,
    request,
    messages,
    tools,
    // An agent's own shortest reply is not what this client asked for.
    sampling: shortened({ ...own, maxTokens }, maxTokens),
    seed: seedOfField(request.seed),
    n: request.n ?? 1,
    constraint: await constraintOf(request, tools, model, exchange),
    topLogprobs: request.logprobs ? (request.top_logprobs ?? 0) : undefined,
    callId: (index) => callId(messages, index),
  };
}

export function plainTool({
  type,
  function: { name, description, parameters },
}: NonNullable<ChatRequest["tools"]>[number]) {
  const own = { name, ...(description && { description }), ...(parameters && { parameters }) };
  return { type, function: own } satisfies ToolDefinition;
}

/** What the reply is held to while it is sampled; nothing where the request asks for nothing of the kind. */
async function constraintOf(
  request: ChatRequest,
  tools: ToolDefinition[],
  model: ServedModel,
  { caller: { keyId }, ignored }: Exchange,
): Promise<ByteAutomaton | undefined> {
  const { tool_choice: chosen = "auto", response_format: format, parallel_tool_calls: parallel = true } = request;
  const answer = answerOf(format);
  const choice: ToolChoice =
    typeof chosen === "object" ? { name: chosen.function.name } : chosen === "required" ? "required" : "auto";
  if (choice !== "auto" && tools.length === 0) throw refused("tool_choice", 'needs "tools".');
  if (typeof choice === "object" && !tools.some((tool) => tool.function.name === choice.name)) {
    throw refused("tool_choice", `names "${choice.name}", which is none of the tools.`);
  }
  const { agent, policy } = model;
  const { constrain: able = false } = policy.capabilities;
  const strict = (request.tools ?? []).some((tool) => tool.function.strict);
  // Agent SDKs ask for it always: whoever cannot hold a call to its schema calls all the same, and says so.
  if (strict && !able) ignored.add("tools.strict");
  const valid = agent.options.constrain !== undefined || (strict && able);
  const held = tools.length > 0 && (choice !== "auto" || !parallel || valid);
  if (!answer && !held) return undefined;
  if (!able) {
    const param = answer
      ? "response_format"
      : choice !== "auto"
        ? "tool_choice"
        : parallel
          ? "tools"
          : "parallel_tool_calls";
    throw refused(param, `cannot be held to by ${model.name}: its engine or its vocabulary does not allow it.`);
  }
  const limits = answer ? answerLimits : (agent.options.constrain ?? readLimits(true));
  const { reasoning } = agent.options;
  const options = { tools, format: model.callFormat, limits, reasoning, choice, parallel, answer };
  return model.constraint(keyId, options).catch((error: unknown) => {
    if (!StatesetError.isInstance(error) || error.code !== "INVALID_OPTION") throw error;
    // Its hint speaks of options that a client does not have.
    const { message, hint = "" } = error;
    const what = hint === "" ? message : message.slice(0, -hint.length - 1);
    throw refused(answer ? "response_format" : "tools", `cannot be followed: ${what}`);
  });
}

/** What the answer must be; a schema that was left out is one that anything fits. */
function answerOf(format: ChatRequest["response_format"]): { schema: JsonSchema | true } | undefined {
  if (format?.type === "json_object") return { schema: true };
  return format?.type === "json_schema" ? { schema: format.json_schema.schema ?? {} } : undefined;
}

/** What the template is told beside. */
export function variablesOf({ chat_template_kwargs: given }: Pick<ChatRequest, "chat_template_kwargs">) {
  if (given === undefined) return {};
  const read = templateVariablesSchema.safeParse(given);
  if (!read.success) throw refused("chat_template_kwargs", `is not what a template can be told.`);
  return { templateVariables: read.data };
}
