/** What was sampled, as a turn: its words, its reasoning, and the tools it asks for. */
import type { Message, ToolCall } from "../conversation/message.ts";
import type { Turn } from "../conversation/trajectory.ts";
import type { ChatTokenizer, Sample } from "../policy/policy.ts";
import { type CallFormat, isUnreadable } from "../tool/format/call-format.ts";
import { splitReasoning } from "./reasoning.ts";

export interface ReadReplyOptions {
  tokenizer: Pick<ChatTokenizer, "decode">;
  endTokens: readonly number[];
  reasoning: boolean;
  /** How calls are written; undefined: they are words like others. */
  format: CallFormat | undefined;
  /** What was said before. */
  messages: readonly Message[];
}

export function readReply(sample: Sample, options: ReadReplyOptions): Turn {
  const { tokenizer, endTokens, reasoning, format, messages } = options;
  const plain: Turn = { role: "assistant", ...(reasoning ? splitReasoning(sample.text) : { content: sample.text }) };
  if (!format) return plain;
  const { tokens } = sample;
  const ended = endTokens.includes(tokens.at(-1) ?? -1);
  // The text of a sample drops special tokens, and what opens a call may be one.
  const printed = tokenizer.decode(ended ? tokens.slice(0, -1) : tokens, { skipSpecial: false });
  const said = reasoning ? splitReasoning(printed) : { content: printed };
  const { content, calls } = format.parse(said.content);
  if (calls.length === 0) return plain;
  const problems: Record<string, string> = {};
  const tool_calls = calls.map((call, i): ToolCall => {
    const id = callId(messages, i);
    if (!isUnreadable(call)) return { id, type: "function", function: call };
    problems[id] = call.problem;
    return { id, type: "function", function: { name: call.name ?? "unreadable", arguments: call.text } };
  });
  return {
    role: "assistant",
    ...("reasoning" in plain && { reasoning: plain.reasoning! }),
    content: content.trim() === "" ? "" : wordsOf(content, sample.text),
    tool_calls,
    ...(Object.keys(problems).length > 0 && { metadata: { unreadableCalls: problems } }),
  };
}

/** What a reply's calls are called, by their place in it. Nine letters and digits: Mistral's templates take no other. */
export function callId(messages: readonly Message[], index: number): string {
  const made = messages.reduce((count, { tool_calls = [] }) => count + tool_calls.length, 0);
  return `call${String(made + index + 1).padStart(5, "0")}`;
}

/** The words before the calls as the sample's text has them, which is without special tokens. */
function wordsOf(content: string, text: string): string {
  if (text.includes(content)) return content;
  // As far as both say the same, special tokens left out.
  let [at, kept] = [0, ""];
  for (const char of text.trimStart()) {
    const next = content.indexOf(char, at);
    if (next < 0) break;
    kept += char;
    at = next + char.length;
  }
  return kept.trimEnd();
}
