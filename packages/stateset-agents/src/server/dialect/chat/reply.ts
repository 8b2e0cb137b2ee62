/** What was sampled, as /v1/chat/completions answers. */
import type { ToolCall } from "../../../conversation/message.ts";
import type { Turn } from "../../../conversation/trajectory.ts";
import type { Sample } from "../../../policy/policy.ts";
import { createReplyText, createTextStream } from "../../../policy/tokenizer/index.ts";
import type { Measure } from "../../draw.ts";
import { writeLogprobs } from "../logprobs.ts";
import { usageOf } from "../usage.ts";
import { createLiveReply, type LiveReplyOptions } from "./live-reply.ts";
import type { ChatCall } from "./read-request.ts";

export interface ReplyMessage {
  role: "assistant";
  content: string | null;
  refusal: null;
  reasoning_content?: string;
  tool_calls?: ToolCall[];
}

/** Everything a reply of several choices has in common, in a stream too. */
export interface ReplyHead {
  id: string;
  created: number;
  model: string;
}

export interface Choice {
  sample: Sample;
  /** As it is given out. */
  turn: Turn;
}

/** A call that cannot be read stays text, and so do the others of its reply: none of them can be answered alone. */
export function replyMessageOf({ turn, sample }: Choice, call: ChatCall): ReplyMessage {
  if (isUnreadable(turn)) return toldOf(sample, call);
  const { reasoning, tool_calls: calls } = turn;
  const head = { role: "assistant", refusal: null, ...(reasoning && { reasoning_content: reasoning }) } as const;
  if (!calls || calls.length === 0) return { ...head, content: turn.content };
  return { ...head, content: turn.content === "" ? null : turn.content, tool_calls: calls };
}

function isUnreadable({ metadata }: Turn): boolean {
  return metadata?.unreadableCalls !== undefined;
}

/** As a stream would have told it: which words are part of a call that came to nothing is decided there. */
function toldOf({ tokens }: Sample, call: ChatCall): ReplyMessage {
  const { tokenizer, model } = call.model.policy;
  const text = createTextStream((ids) => tokenizer.decode(ids), new Set(model.endTokens));
  const reply = createReplyText(text, call.sampling.stop);
  const told = { text: "", reasoning: "", calls: [] as ToolCall[] };
  const live = createLiveReply({
    ...liveOptionsOf(call),
    emit(piece) {
      if (piece.kind === "text" || piece.kind === "reasoning") told[piece.kind] += piece.text;
      else if (piece.kind === "arguments") told.calls[piece.index]!.function.arguments += piece.text;
      else {
        const { index, name } = piece;
        told.calls[index] = { id: call.callId(index), type: "function", function: { name, arguments: "" } };
      }
    },
  });
  for (const [i, token] of tokens.entries()) {
    const piece = reply.push(token);
    live.push({ token, text: i === tokens.length - 1 ? piece + reply.finish() : piece });
  }
  live.end();
  return {
    ...{ role: "assistant", content: told.text === "" && told.calls.length > 0 ? null : told.text, refusal: null },
    ...(told.reasoning !== "" && { reasoning_content: told.reasoning }),
    ...(told.calls.length > 0 && { tool_calls: told.calls }),
  };
}

/** How the replies to a request are told while they are sampled. */
export function liveOptionsOf({ model, tools, constraint }: ChatCall): Omit<LiveReplyOptions, "emit"> {
  return {
    tokenizer: model.policy.tokenizer,
    endTokens: model.policy.model.endTokens,
    format: tools.length > 0 ? model.callFormat : undefined,
    reasoning: model.agent.options.reasoning,
    held: constraint !== undefined,
  };
}

/** A call that the token limit cut off is not one to be run. */
export function chatFinishOf({ sample, turn }: Choice, message: Pick<ReplyMessage, "tool_calls">): string {
  if (message.tool_calls && !isUnreadable(turn)) return "tool_calls";
  return sample.finishReason === "length" ? "length" : "stop";
}

export function completionOf(
  head: ReplyHead,
  choices: readonly Choice[],
  call: ChatCall,
  measure: Measure,
  promptTokens: Int32Array,
) {
  const { policy } = call.model;
  const { tokenizer, model } = policy;
  const ids = call.request.return_token_ids === true;
  return {
    ...head,
    object: "chat.completion",
    // The weights that answered, by name.
    system_fingerprint: choices[0]!.sample.version,
    choices: choices.map((choice, index) => {
      const message = replyMessageOf(choice, call);
      const content =
        call.topLogprobs === undefined ? undefined : writeLogprobs(choice.sample, { tokenizer, ...model });
      return {
        index,
        message,
        logprobs: content === undefined ? null : { content, refusal: null },
        finish_reason: chatFinishOf(choice, message),
        ...(ids && { token_ids: [...choice.sample.tokens] }),
      };
    }),
    usage: usageOf(
      measure,
      choices.map(({ sample }) => sample),
    ),
    ...(ids && { prompt_token_ids: [...promptTokens] }),
  };
}
