import type { Message } from "../../conversation/message.ts";
import { StatesetError } from "../../error.ts";
import type { RenderOptions } from "../policy.ts";
import type { TextCodec } from "./codec.ts";
import { type ControlToken, createSplitter } from "./control-tokens.ts";
import { generatedLength } from "./segments.ts";

/** What a template prints after a reply. */
export interface Tail {
  /** The token it closes the reply with, where it does so with one. */
  end: string | undefined;
  text: string;
}

/** Undefined when what follows the reply at index `at` cannot be told apart from it. */
export type FindTail = (messages: readonly Message[], at: number, options: RenderOptions) => Tail | undefined;

export interface TailParts {
  codec: TextCodec;
  /** Marked text. */
  print(messages: readonly Message[], options: RenderOptions): string;
  mark(text: string): string;
  endTokens: readonly number[];
}

/**
 * Finds what follows a reply by its end-of-turn token. Contents hold none (they are marked), so the reply's is the last one
 * printed when the conversation ends with it, and has the same number when the conversation goes on.
 */
export function createTailFinder({ codec, print, mark, endTokens }: TailParts): FindTail {
  const split = createSplitter(codec.controlTokens.filter(({ id }) => endTokens.includes(id)));
  return (messages, at, options) => {
    const upTo = print(messages.slice(0, at + 1), { ...options, addGenerationPrompt: false });
    const whole = print(messages, options);
    const parts = split(upTo);
    const count = parts.filter(isToken).length;
    if (count === 0) return afterContent(upTo, whole);
    // A template that leaves the last turn open does not say where it ends.
    const rest = parts.at(-1);
    if (typeof rest === "string" && rest.trim() !== "") return undefined;
    let [place, seen] = [0, 0];
    for (const part of split(whole)) {
      place += isToken(part) ? part.text.length : part.length;
      if (isToken(part) && ++seen === count) return { end: part.text, text: whole.slice(place) };
    }
    return undefined;

    function afterContent(upTo: string, whole: string): Tail | undefined {
      const prompt = print(messages.slice(0, at), { ...options, addGenerationPrompt: true });
      if (!upTo.startsWith(prompt)) return undefined;
      const place = prompt.length + generatedLength(upTo.slice(prompt.length), mark(messages[at]!.content), []);
      return whole.startsWith(upTo.slice(0, place)) ? { end: undefined, text: whole.slice(place) } : undefined;
    }
  };
}

function isToken(part: string | ControlToken): part is ControlToken {
  return typeof part !== "string";
}

/**
 * Whether a template still prints what came before the reply at index `at` as it did in the reply's prompt. Replies that were
 * sampled do not count, nor how it opens them: their tokens stay as they were sampled, whatever it would print in their place.
 */
export function isUnchanged(
  print: TailParts["print"],
  messages: readonly Message[],
  at: number,
  sampled: ReadonlySet<number>,
  options: RenderOptions,
): boolean {
  const plain = messages.map((message, i): Message => {
    if (i !== at && !sampled.has(i)) return message;
    return { role: "assistant", content: "…", ...(message.tool_calls && { tool_calls: message.tool_calls }) };
  });
  const before = print(plain.slice(0, at), { ...options, addGenerationPrompt: false });
  return print(plain, options).startsWith(before);
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
