import type { Message } from "../../conversation/message.ts";
import { StatesetError } from "../../error.ts";
import type { RenderOptions } from "../policy.ts";
import type { TextCodec } from "./codec.ts";
import { signOf, splitAtSigns } from "./control-tokens.ts";
import { generatedLength } from "./segments.ts";
import { marks, slice, type TracedText } from "./traced-text.ts";

/** What a template prints after a reply, as signed text. */
export interface Tail {
  /** The sign of the token it closes the reply with, where it does so with one. */
  end: string | undefined;
  text: string;
}

/** Undefined when what follows the reply at index `at` cannot be told apart from it. */
export type FindTail = (messages: readonly Message[], at: number, options: RenderOptions) => Tail | undefined;

export interface TailParts {
  codec: TextCodec;
  /** Signed text. */
  print(messages: readonly Message[], options: RenderOptions): string;
  /** With the message at index `reply` marked apart. */
  trace(messages: readonly Message[], options: RenderOptions, reply: number): TracedText;
  /** What the template may decide by. */
  lookedFor: readonly string[];
  /** Whether it was seen to decide by anything else that is said. */
  measures(): boolean;
  endTokens: readonly number[];
}

/**
 * Finds what follows a reply. Usually that is plain to see: its own characters are marked, and the next token that ends turns is its
 * end. Where nothing of it is printed, or something else before its end, the end is found by counting: contents hold no such token, so
 * the reply's is the last one printed when the conversation ends with it, and has the same number when the conversation goes on.
 */
export function createTailFinder(parts: TailParts): FindTail {
  const { codec, print, trace } = parts;
  const isEnd = endsOf(parts);
  return (messages, at, options) => seenTail(trace(messages, options, at)) ?? countedTail(messages, at, options);

  function seenTail(whole: TracedText): Tail | undefined {
    const [from, to] = [whole.own.indexOf(marks.reply), whole.own.lastIndexOf(marks.reply) + 1];
    if (to === 0 || whole.own.slice(from, to).includes(marks.said)) return undefined;
    const next = whole.own.indexOf(marks.said, to);
    // Signs never reach across a foreign character, so a text can be signed in two parts at any.
    const between = codec.sign(slice(whole, to, next < 0 ? undefined : next));
    const id = splitAtSigns(between).find(isEnd);
    if (id === undefined) return undefined;
    const end = signOf(id as number);
    const after = next < 0 ? "" : codec.sign(slice(whole, next));
    return { end, text: between.slice(between.indexOf(end) + end.length) + after };
  }

  function countedTail(messages: readonly Message[], at: number, options: RenderOptions): Tail | undefined {
    const whole = print(messages, options);
    // With an opening after them, because some templates end a conversation that does not go on with a token of its own.
    const upTo = print(messages.slice(0, at + 1), { ...options, addGenerationPrompt: true });
    const count = splitAtSigns(upTo).filter(isEnd).length;
    if (count === 0) return tailAfterContent(whole, messages, at, options);
    let [place, seen] = [0, 0];
    for (const part of splitAtSigns(whole)) {
      const text = typeof part === "number" ? signOf(part) : part;
      place += text.length;
      if (isEnd(part) && ++seen === count) return { end: text, text: whole.slice(place) };
    }
    return undefined;
  }

  function tailAfterContent(
    whole: string,
    messages: readonly Message[],
    at: number,
    options: RenderOptions,
  ): Tail | undefined {
    const upTo = print(messages.slice(0, at + 1), { ...options, addGenerationPrompt: false });
    const prompt = print(messages.slice(0, at), { ...options, addGenerationPrompt: true });
    if (!upTo.startsWith(prompt)) return undefined;
    const place = prompt.length + generatedLength(upTo.slice(prompt.length), messages[at]!.content, []);
    return whole.startsWith(upTo.slice(0, place)) ? { end: undefined, text: whole.slice(place) } : undefined;
  }
}

/** Which parts of a signed text are tokens that end turns. */
export function endsOf({ codec, endTokens }: TailParts): (part: string | number) => boolean {
  const ends = new Set<unknown>(endTokens.filter((end) => codec.controlTokens.some(({ id }) => id === end)));
  return (part) => ends.has(part);
}

/**
 * Whether a template still prints what came before the reply at index `at` as it did in the reply's prompt. Replies that were
 * sampled do not count: their tokens stay as they were sampled, whatever it would print in their place. But where it measures what
 * is said, their answers must be said; reasoning is what templates drop.
 */
export function isUnchanged(
  { print, measures }: TailParts,
  messages: readonly Message[],
  at: number,
  sampled: ReadonlySet<number>,
  options: RenderOptions,
  begins = (whole: string, start: string) => whole.startsWith(start),
): boolean {
  const plain = messages.map((message, i): Message => {
    if (i !== at && !sampled.has(i)) return message;
    const { reasoning: _, ...answer } = message;
    if (measures()) return answer;
    const { tool_calls } = message;
    return { role: "assistant", content: standInFor(i), ...(tool_calls && { tool_calls }) };
  });
  const whole = print(plain, options);
  // Some openings of a reply are dropped when it is no longer the last one; some templates end a text without an opening.
  return [false, true].some((addGenerationPrompt) =>
    begins(whole, print(plain.slice(0, at), { ...options, addGenerationPrompt })),
  );
}

/** What stands for a sampled reply where only the text around it matters. */
export function standInFor(index: number): string {
  return `reply ${index}.`;
}

/** Undefined where the template refuses. */
export function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (StatesetError.isInstance(error)) return undefined;
    throw error;
  }
}
