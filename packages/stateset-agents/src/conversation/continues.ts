import type { ChainState, SampledReply } from "./chain.ts";
import type { Message, ToolCall } from "./message.ts";
import { sameCalls } from "./same-calls.ts";
import { sameJson } from "./same-json.ts";
import { type ChainStart, turnNotes } from "./trajectory.ts";

/** Why a conversation cannot go on with a chain's tokens; undefined when, as far as messages say, it can. */
export function whyRestart(
  chain: ChainState | undefined,
  messages: readonly Message[],
  options: Pick<ChainState, "tools" | "templateVariables">,
): ChainStart | undefined {
  if (!chain) return "first-prompt";
  if (!sameJson(chain.tools ?? [], options.tools ?? [])) return "tools-changed";
  if (!sameJson(chain.templateVariables ?? {}, options.templateVariables ?? {})) return "variables-changed";
  const at = chain.messages.length;
  if (!chain.messages.every((message, i) => messages[i] && sameMessage(message, messages[i])))
    return "messages-changed";
  const next = messages[at];
  if (!chain.reply || next?.role !== "assistant") return "messages-changed";
  if (!standsFor(next, chain.reply)) return "reply-edited";
  return chain.reply.ended === "stop-text" ? "stop-text" : undefined;
}

/** Whether the chain has answered just this prompt already. */
export function hasAnswered(chain: ChainState, messages: readonly Message[]): boolean {
  return chain.reply !== undefined && sameMessages(chain.messages, messages);
}

/** Whether a template would be given the same. */
export function sameMessages(a: readonly Message[], b: readonly Message[]): boolean {
  return a.length === b.length && a.every((message, i) => sameMessage(message, b[i]!));
}

/**
 * Whether a message is the reply that was sampled, give or take the spaces around it: as the agent made it of the sample, or the sample
 * itself. Its calls must be those that were read from it. Where none were read and it was taken apart since, what is left of its words is
 * enough, for the calls are the rest of it.
 * Anything else was edited: a redacted reply must not go on as the one that was redacted.
 */
function standsFor({ content, reasoning, tool_calls }: Message, { message, text, unanswered }: SampledReply): boolean {
  const words = content.trim();
  const thought = (reasoning ?? "").trim();
  const sameWords = [message.content, text, unanswered].some((whole) => whole?.trim() === words);
  if (tool_calls !== undefined && tool_calls.length > 0) {
    if (message.tool_calls && !sameCalls(message.tool_calls, tool_calls, { ids: false })) return false;
    return (words === message.content.trim() || text.includes(words)) && text.includes(thought);
  }
  if (!sameWords) return splitApart(text, thought, words);
  return thought === "" || thought === (message.reasoning ?? "").trim();
}

/** Reasoning and answer that are the whole sample but for the tags between them. */
function splitApart(text: string, thought: string, words: string): boolean {
  if (thought === "") return false;
  const [at, end] = [text.indexOf(thought), text.lastIndexOf(words)];
  if (at < 0 || end < at + thought.length) return false;
  const around = [text.slice(0, at), text.slice(at + thought.length, end), text.slice(end + words.length)];
  return around.every((rest) => /^\s*(?:(?:<[^<>\s]{1,40}>|\[[^[\]\s]{1,40}\])\s*)*$/.test(rest));
}

/** The same for a template, which is given every field, known or not; but no notes about a turn. */
function sameMessage(a: Message, b: Message): boolean {
  return a === b || (isRepeated(a, b) && isRepeated(b, a));
}

/** Asked of every message at every turn. */
function isRepeated(message: Message, other: Message): boolean {
  for (const field of Object.keys(message) as (keyof Message)[]) {
    const one: unknown = message[field];
    const two: unknown = other[field];
    if (one === two || turnNotes.has(field)) continue;
    // No calls are an empty list of them.
    const calls = [one ?? [], two ?? []] as [ToolCall[], ToolCall[]];
    if (!(field === "tool_calls" ? sameCalls(...calls) : sameJson(one, two))) return false;
  }
  return true;
}
