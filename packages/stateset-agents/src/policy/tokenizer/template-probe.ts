import type { Message } from "../../conversation/message.ts";
import type { RenderOptions } from "../policy.ts";
import { signOf, splitAtSigns } from "./control-tokens.ts";
import { argumentAt, contentAt, messageFor, searched, shapes, tool } from "./probe-conversations.ts";
import {
  attempt,
  createTailFinder,
  endsOf,
  type FindTail,
  isUnchanged,
  standInFor,
  type TailParts,
} from "./reply-tail.ts";

/**
 * How much of a conversation must be rendered to know what a template prints after a reply: a short window; all of it, compared
 * with what was printed before; or it cannot be known, because the reply's end is not where its end-of-turn token says.
 */
export type Reach = "window" | "whole" | "never";

/**
 * Probing takes 10 to 50 milliseconds with most templates, up to 200 with those that look for thirty things. So whoever varies
 * variables without end is served the slow way, and so are templates that look for still more.
 */
const mostKinds = 16;
const mostSought = 50;

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
    const reach = reachBy(options, written);
    return reach === "window" && parts.measures() ? "whole" : reach;
  };

  function reachBy(options: RenderOptions, written: boolean): Reach {
    const tools = (options.tools ?? []).length > 0 ? [tool] : [];
    const kind = JSON.stringify([tools.length, written, options.templateVariables ?? {}]);
    const before = known.get(kind);
    if (before) return before;
    if (known.size >= mostKinds) return "whole";
    const asked = { ...options, tools, addGenerationPrompt: true };
    const reach = tryOut(parts, asked, written);
    known.set(kind, reach);
    return reach;
  }
}

function tryOut(given: TailParts, options: RenderOptions, written: boolean): Reach {
  const parts = { ...given, print: rememberPrints(given.print), trace: rememberPrints(given.trace) };
  const findTail = createTailFinder(parts);
  const tryShape = (
    shape: readonly string[],
    change: (messages: Message[], at: number) => Message[] = (same) => same,
  ) => {
    const at = shape.findIndex((part) => part.endsWith("*"));
    return reachOf(parts, findTail, change(shape.map(messageFor), at), at, options, written);
  };
  const reaches = new Set(shapes.map((shape) => tryShape(shape)));
  if (reaches.has("never")) return "never";
  if (reaches.has("whole") || !reaches.has("window") || parts.lookedFor.length > mostSought) return "whole";
  // What is looked for may decide by where it is said: in what a window leaves out, or in what is new.
  const isFound = (said: string) =>
    searched.some((shape) => {
      const left = tryShape(shape, (messages, at) => saying(said, messages, (i) => !isKept(messages, at, i)));
      const added = tryShape(shape, (messages, at) => saying(said, messages, (i) => i > at));
      return [left, added].some((reach) => reach !== undefined && reach !== "window");
    });
  // Nothing, too, is something that a template may ask for.
  return ["", ...parts.lookedFor].some(isFound) ? "whole" : "window";
}

/** Conversations that are tried have much in common. */
function rememberPrints<T>(
  print: (messages: readonly Message[], options: RenderOptions, reply: number) => T,
): (messages: readonly Message[], options: RenderOptions, reply?: number) => T {
  const known = new Map<string, T>();
  return (messages, options, reply = -1) => {
    const asked = JSON.stringify([messages, options.addGenerationPrompt ?? false, reply]);
    const text = known.get(asked) ?? print(messages, options, reply);
    known.set(asked, text);
    return text;
  };
}

function isKept(messages: readonly Message[], at: number, index: number): boolean {
  return windowOf(messages, at).messages.includes(messages[index]!);
}

function saying(content: string, messages: readonly Message[], where: (index: number) => boolean): Message[] {
  return messages.map((message, i) => {
    if (!where(i)) return message;
    return { ...message, content, ...(message.reasoning !== undefined && { reasoning: content }) };
  });
}

/** Undefined when the template has no place for such a conversation. */
function reachOf(
  parts: TailParts,
  findTail: FindTail,
  messages: readonly Message[],
  at: number,
  options: RenderOptions,
  written: boolean,
): Reach | undefined {
  const whole = attempt(() => ({ text: parts.print(messages, options), tail: findTail(messages, at, options) }));
  if (!whole) return undefined;
  const { text, tail } = whole;
  if (!tail) return "whole";
  const told = messages.filter(({ content }, i) => i > at && content === contentAt(i));
  const lost = told.some(({ content }) => text.includes(content) && !tail.text.includes(content));
  if (lost || [contentAt(at), argumentAt(at)].some((own) => tail.text.includes(own))) return "never";

  const view = windowOf(messages, at);
  const seen = attempt(() => findTail(view.messages, view.at, options));
  const replies = [...messages.keys()].filter((i) => i < at && messages[i]!.role === "assistant");
  const sampled = new Set(written ? [] : replies);
  const same = createPieceComparison(parts, [...sampled, at], messages);
  const exact = seen?.text === tail.text && seen.end === tail.end;
  return exact && attempt(() => isUnchanged(parts, messages, at, sampled, options, same)) ? "window" : "whole";
}

/**
 * Whether one text begins with another, piece by piece between end-of-turn tokens. A piece that holds a sampled reply and no
 * other message does not count: some templates open replies otherwise once the conversation has gone on.
 */
function createPieceComparison(parts: TailParts, sampled: readonly number[], messages: readonly Message[]) {
  const isEnd = endsOf(parts);
  const others = messages.filter(({ content }, i) => !sampled.includes(i) && content === contentAt(i));
  const isReply = (piece: string) =>
    sampled.some((i) => piece.includes(standInFor(i))) && !others.some(({ content }) => piece.includes(content));
  return (whole: string, start: string): boolean => {
    const pieces = splitAt(whole, isEnd);
    const begun = splitAt(start, isEnd);
    return begun.every((piece, i) => {
      const other = pieces[i];
      if (other === undefined) return false;
      return i === begun.length - 1 ? other.startsWith(piece) : piece === other || (isReply(piece) && isReply(other));
    });
  };
}

/** The text before, between and after the tokens that end turns. */
function splitAt(signed: string, isEnd: (part: string | number) => boolean): string[] {
  const pieces = [""];
  for (const part of splitAtSigns(signed)) {
    if (isEnd(part)) pieces.push(signOf(part as number), "");
    else pieces[pieces.length - 1] += typeof part === "number" ? signOf(part) : part;
  }
  return pieces;
}
