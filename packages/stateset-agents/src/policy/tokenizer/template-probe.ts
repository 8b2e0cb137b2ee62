import type { Message, ToolCall } from "../../conversation/message.ts";
import type { ToolDefinition } from "../../conversation/tool-definition.ts";
import type { RenderOptions } from "../policy.ts";
import { createSplitter } from "./control-tokens.ts";
import { attempt, createTailFinder, endsOf, isUnchanged, standInFor, type TailParts } from "./reply-tail.ts";

/**
 * How much of a conversation must be rendered to know what a template prints after a reply: a short window; all of it, compared
 * with what was printed before; or it cannot be known, because the reply's end is not where its end-of-turn token says.
 */
export type Reach = "window" | "whole" | "never";

/**
 * Conversations of many shapes, the reply in question marked by a star. S system, U user, A a reply, C one that calls a tool,
 * D one that calls two, T a tool's result; r before a reply: with reasoning; k: with reasoning written into its content.
 */
const shapes = [
  "U A* U",
  "S U A* U",
  "S U A*",
  "U A U A* U",
  "S U A U A U A* U",
  `S ${"U A ".repeat(12)}U A* U`,
  "U U A* U",
  "S U A* U U",
  "U C* T",
  "S U C* T",
  "U D* T T",
  "U C T A* U",
  "S U C T C T C* T",
  "S U A U D T T A* U",
  "U rA* U",
  "U rA U rA* U",
  "U rC* T",
  "U rC T rA* U",
  "S U rC T rC T rC* T",
  "S U rC T rA U rC T rA* U",
  "S U kA U kC T kA* U",
].map((shape) => shape.split(" "));

/** Probing costs some milliseconds; whoever varies variables without end is served the slow way. */
const mostKinds = 32;

/** What is rendered in place of a whole conversation: the system message, the last user message before the reply, and the rest. */
export function windowOf(messages: readonly Message[], at: number): { messages: readonly Message[]; at: number } {
  const first = messages[0]?.role === "system" || messages[0]?.role === "developer" ? 1 : 0;
  const user = messages.findLastIndex(({ role }, i) => i < at && role === "user");
  if (user < first) return { messages, at };
  const head = [...messages.slice(0, first), messages[user]!];
  return { messages: [...head, ...messages.slice(at)], at: head.length };
}

/**
 * Finds out a template's reach by trying it on conversations of many shapes, once for each kind of options. `written`: with
 * replies in the past that were not sampled; what the template makes of those counts, as with any other message.
 */
export function createTemplateProbe(parts: TailParts): (options: RenderOptions, written: boolean) => Reach {
  const known = new Map<string, Reach>();
  return (options, written) => {
    const tools = (options.tools ?? []).length > 0 ? [tool] : [];
    const kind = JSON.stringify([tools.length, written, options.templateVariables ?? {}]);
    const before = known.get(kind);
    if (before) return before;
    if (known.size >= mostKinds) return "whole";
    const reaches = new Set<Reach | undefined>();
    const asked = { ...options, tools, addGenerationPrompt: true };
    for (const shape of shapes) reaches.add(reachOf(parts, shape, asked, written));
    const reach = reaches.has("never") ? "never" : reaches.has("whole") || !reaches.has("window") ? "whole" : "window";
    known.set(kind, reach);
    return reach;
  };
}

/** Undefined when the template has no place for such a conversation. */
function reachOf(
  parts: TailParts,
  shape: readonly string[],
  options: RenderOptions,
  written: boolean,
): Reach | undefined {
  const findTail = createTailFinder(parts);
  const messages = shape.map(messageFor);
  const at = shape.findIndex((part) => part.endsWith("*"));
  const whole = attempt(() => ({ text: parts.print(messages, options), tail: findTail(messages, at, options) }));
  if (!whole) return undefined;
  const { text, tail } = whole;
  if (!tail) return "whole";
  const lost = messages.slice(at + 1).some(({ content }) => text.includes(content) && !tail.text.includes(content));
  if (lost || [contentAt(at), argumentAt(at)].some((own) => tail.text.includes(own))) return "never";

  const view = windowOf(messages, at);
  const seen = attempt(() => findTail(view.messages, view.at, options));
  const replies = [...messages.keys()].filter((i) => i < at && messages[i]!.role === "assistant");
  const sampled = new Set(written ? [] : replies);
  const same = createPieceComparison(parts, [...sampled, at], messages.length);
  const exact = seen?.text === tail.text && seen.end === tail.end;
  return exact && attempt(() => isUnchanged(parts.print, messages, at, sampled, options, same)) ? "window" : "whole";
}

/**
 * Whether one text begins with another, piece by piece between end-of-turn tokens. A piece that holds a sampled reply and no
 * other message does not count: some templates open replies otherwise once the conversation has gone on.
 */
function createPieceComparison(parts: TailParts, sampled: readonly number[], length: number) {
  const split = createSplitter(endsOf(parts));
  const others = [...Array(length).keys()].filter((i) => !sampled.includes(i)).map(contentAt);
  const isReply = (piece: string) =>
    sampled.some((i) => piece.includes(standInFor(i))) && !others.some((content) => piece.includes(content));
  return (whole: string, start: string): boolean => {
    const pieces = split(whole);
    const begun = split(start);
    return begun.every((piece, i) => {
      const other = pieces[i];
      if (typeof piece !== "string" || typeof other !== "string") return piece === other;
      return i === begun.length - 1 ? other.startsWith(piece) : piece === other || (isReply(piece) && isReply(other));
    });
  };
}

const tool: ToolDefinition = {
  type: "function",
  function: {
    name: "look",
    description: "Looks.",
    parameters: { type: "object", properties: { at: { type: "string" } } },
  },
};

function contentAt(index: number): string {
  return `message ${index}.`;
}

function argumentAt(index: number): string {
  return `argument ${index}.`;
}

function messageFor(part: string, index: number): Message {
  const content = contentAt(index);
  const kind = part.replace("*", "").at(-1)!;
  if (kind === "S") return { role: "system", content };
  if (kind === "U") return { role: "user", content };
  if (kind === "T") return { role: "tool", content, name: "look", tool_call_id: "callprobe" };
  const reasoning = "It was asked, so think.";
  const args = JSON.stringify({ at: argumentAt(index) });
  const call: ToolCall = { id: "callprobe", type: "function", function: { name: "look", arguments: args } };
  const calls = kind === "A" ? 0 : kind === "C" ? 1 : 2;
  return {
    role: "assistant",
    content: part.startsWith("k") ? `<think>\n${reasoning}\n</think>\n\n${content}` : content,
    ...(part.startsWith("r") && { reasoning }),
    ...(calls > 0 && { tool_calls: Array.from({ length: calls }, () => call) }),
  };
}
