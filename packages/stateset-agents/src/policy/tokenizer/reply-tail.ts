import type { Message } from "../../conversation/message.ts";
import { StatesetError } from "../../error.ts";
import type { RenderOptions } from "../policy.ts";
import type { TextCodec } from "./codec.ts";
import { signOf, splitAtSigns } from "./control-tokens.ts";
import { generatedLength } from "./segments.ts";

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
  /** What the template may decide by. */
  lookedFor: readonly string[];
  endTokens: readonly number[];
}

/**
 * Finds what follows a reply by its end-of-turn token. Contents hold none, so the reply's is the last one printed when the
 * conversation ends with it, and has the same number when the conversation goes on.
 */
export function createTailFinder(parts: TailParts): FindTail {
  const { print } = parts;
  const isEnd = endsOf(parts);
  const countEnds = rememberCounts(parts.lookedFor, (messages, options) => {
    // With an opening after them, because some templates end a conversation that does not go on with a token of its own.
    return splitAtSigns(print(messages, { ...options, addGenerationPrompt: true })).filter(isEnd).length;
  });
  return (messages, at, options) => {
    const whole = print(messages, options);
    const count = countEnds(messages.slice(0, at + 1), options);
    if (count === 0) return afterContent(whole);
    let [place, seen] = [0, 0];
    for (const part of splitAtSigns(whole)) {
      const text = typeof part === "number" ? signOf(part) : part;
      place += text.length;
      if (isEnd(part) && ++seen === count) return { end: text, text: whole.slice(place) };
    }
    return undefined;

    function afterContent(whole: string): Tail | undefined {
      const upTo = print(messages.slice(0, at + 1), { ...options, addGenerationPrompt: false });
      const prompt = print(messages.slice(0, at), { ...options, addGenerationPrompt: true });
      if (!upTo.startsWith(prompt)) return undefined;
      const place = prompt.length + generatedLength(upTo.slice(prompt.length), messages[at]!.content, []);
      return whole.startsWith(upTo.slice(0, place)) ? { end: undefined, text: whole.slice(place) } : undefined;
    }
  };
}

/**
 * How many tokens end turns depends on who speaks, and on what a template looks for in what they say: windows of one shape need
 * be counted only once.
 */
function rememberCounts(
  lookedFor: readonly string[],
  count: (messages: readonly Message[], options: RenderOptions) => number,
): typeof count {
  const known = new Map<string, number>();
  return (messages, options) => {
    if (messages.length > 3) return count(messages, options);
    const said = messages.map(({ role, content, reasoning, tool_calls }) => {
      const found = lookedFor.flatMap((text, i) => (content.includes(text) ? [i] : []));
      return `${role} ${content.trim() !== ""} ${reasoning !== undefined} ${tool_calls?.length ?? 0} ${found}`;
    });
    const shape = JSON.stringify([said, (options.tools ?? []).length > 0, options.templateVariables ?? {}]);
    const before = known.get(shape);
    if (before !== undefined) return before;
    const found = count(messages, options);
    if (known.size < 1000) known.set(shape, found);
    return found;
  };
}

/** Which parts of a signed text are tokens that end turns. */
export function endsOf({ codec, endTokens }: TailParts): (part: string | number) => boolean {
  const ends = new Set<unknown>(endTokens.filter((end) => codec.controlTokens.some(({ id }) => id === end)));
  return (part) => ends.has(part);
}

/**
 * Whether a template still prints what came before the reply at index `at` as it did in the reply's prompt. Replies that were
 * sampled do not count: their tokens stay as they were sampled, whatever it would print in their place.
 */
export function isUnchanged(
  print: TailParts["print"],
  messages: readonly Message[],
  at: number,
  sampled: ReadonlySet<number>,
  options: RenderOptions,
  begins = (whole: string, start: string) => whole.startsWith(start),
): boolean {
  const plain = messages.map((message, i): Message => {
    if (i !== at && !sampled.has(i)) return message;
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
