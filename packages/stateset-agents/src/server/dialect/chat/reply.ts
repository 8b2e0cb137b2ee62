/** What was sampled, as /v1/chat/completions answers. */
import type { ToolCall } from "../../../conversation/message.ts";
import type { Turn } from "../../../conversation/trajectory.ts";
import type { Sample } from "../../../policy/policy.ts";
import type { Measure } from "../../draw.ts";
import { writeLogprobs } from "../logprobs.ts";
import { usageOf } from "../usage.ts";
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
  /** The weights that answer, by name. */
  system_fingerprint: string;
}

export interface Choice {
  sample: Sample;
  /** As it is given out. */
  turn: Turn;
}

/** A call that cannot be read stays text, and so do the others of its reply: none of them can be answered alone. */
export function messageOf({ turn, sample }: Choice, call: ChatCall): ReplyMessage {
  const { reasoning, tool_calls: calls } = turn;
  const head = { role: "assistant", refusal: null, ...(reasoning && { reasoning_content: reasoning }) } as const;
  if (!calls || calls.length === 0) return { ...head, content: turn.content };
  if (isUnreadable(turn)) return { ...head, content: printed(sample, call) };
  return { ...head, content: turn.content === "" ? null : turn.content, tool_calls: calls };
}

function isUnreadable({ metadata }: Turn): boolean {
  return metadata?.unreadableCalls !== undefined;
}

/** With what opens a call, which may be special tokens; without what ends the reply. */
function printed({ tokens }: Sample, { model: { policy } }: ChatCall): string {
  const ended = policy.model.endTokens.includes(tokens.at(-1) ?? -1);
  return policy.tokenizer.decode(ended ? tokens.subarray(0, -1) : tokens, { skipSpecial: false });
}

export function finishReasonOf({ sample }: Choice, message: Pick<ReplyMessage, "tool_calls">): string {
  if (message.tool_calls) return "tool_calls";
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
    choices: choices.map((choice, index) => {
      const message = messageOf(choice, call);
      const content =
        call.topLogprobs === undefined ? undefined : writeLogprobs(choice.sample, { tokenizer, ...model });
      return {
        index,
        message,
        logprobs: content === undefined ? null : { content, refusal: null },
        finish_reason: finishReasonOf(choice, message),
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
