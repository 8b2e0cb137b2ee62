import type { Message } from "../../conversation/message.ts";
import { StatesetError } from "../../error.ts";
import type { ChatTokenizer, RenderOptions, TokenSegment } from "../policy.ts";
import { coveredBy, encodeContinuation, type TextCodec, wellFormed } from "./codec.ts";
import { createTextStream, type TextStream } from "./text-stream.ts";

/** Prints a conversation. Throws when the template has no place for these messages. */
export type ChatRenderer = (messages: readonly Message[], options: RenderOptions) => string;

/** What engines need beyond the ChatTokenizer contract. */
export interface LoadedTokenizer extends ChatTokenizer {
  /** Tokens that end a reply. */
  readonly endTokens: readonly number[];
  /** Put before plain text by models that were trained so; chat prompts get it from their template. */
  readonly bosToken: number | undefined;
  /** Text of tokens as they come, without special tokens. */
  createTextStream(): TextStream;
}

export interface ChatTokenizerParts {
  codec: TextCodec;
  renderer: ChatRenderer;
  endTokens: readonly number[];
  bosToken?: number;
}

export function createChatTokenizer({ codec, renderer, endTokens, bosToken }: ChatTokenizerParts): LoadedTokenizer {
  const endTexts = endTokens.map((token) => codec.decode([token])).filter((text) => text !== "");
  // Some models declare their end-of-turn token as an ordinary one; it is no part of a reply's text all the same.
  const skipped: ReadonlySet<number> = new Set([...codec.specialIds, ...endTokens]);
  const render = (messages: readonly Message[], options: RenderOptions = {}) => {
    if (messages.length === 0) throw new StatesetError("INVALID_MESSAGE", "There are no messages to render.");
    return wellFormed(renderer(messages, options));
  };
  return {
    vocabSize: codec.vocabSize,
    endTokens,
    bosToken,
    encode: (text) => Int32Array.from(codec.encode(wellFormed(text))),
    decode(tokens, { skipSpecial = true } = {}) {
      const ids = Array.from(tokens);
      return codec.decode(skipSpecial ? ids.filter((id) => !skipped.has(id)) : ids);
    },
    render,
    extend(chain, messages, options = {}) {
      const text = render(messages, options);
      const covered = chain ? coveredBy(codec, chain.text, text) : -1;
      if (covered >= 0) {
        const added = encodeContinuation(codec, text.slice(0, covered), text.slice(covered));
        return { kind: "append", tokens: Int32Array.from(added), text };
      }
      return { kind: "restart", tokens: Int32Array.from(codec.encode(text)), text };
    },
    segments(messages, options = {}) {
      const text = render(messages, options);
      return cutIntoSegments(codec, text, findStretches(text, messages, options, render, endTexts));
    },
    createTextStream: () => createTextStream((tokens) => codec.decode(tokens), skipped),
  };
}

/** A part of the rendered text, up to `end`. */
interface Stretch {
  end: number;
  message: number;
  generated: boolean;
}

/**
 * Which message each part of the rendered text came from. A prefix of the conversation is rendered for every message; where the
 * text of the whole conversation begins with it, its end is a boundary. An assistant turn counts as generated only when the
 * template prints it the same way now as when it was the newest one: text that a template has rewritten since (such as a turn
 * whose reasoning was dropped) is not what the assistant would write, and must not be learnt.
 */
function findStretches(
  text: string,
  messages: readonly Message[],
  options: RenderOptions,
  render: (messages: readonly Message[], options: RenderOptions) => string,
  endTexts: readonly string[],
): Stretch[] {
  const stretches: Stretch[] = [];
  const add = (end: number, message: number, generated: boolean) => {
    if (end > (stretches.at(-1)?.end ?? 0)) stretches.push({ end, message, generated });
  };
  // Some templates refuse some prefixes (a lone system message, a missing user turn): then there is no boundary there.
  const attempt = (prefix: readonly Message[], addGenerationPrompt: boolean) => {
    try {
      return prefix.length === 0 ? undefined : render(prefix, { ...options, addGenerationPrompt });
    } catch (error) {
      if (StatesetError.isInstance(error)) return undefined;
      throw error;
    }
  };
  messages.forEach((message, index) => {
    const whole = attempt(messages.slice(0, index + 1), false);
    if (whole === undefined) return;
    if (message.role === "assistant") {
      const prompt = attempt(messages.slice(0, index), true);
      if (prompt !== undefined && whole.startsWith(prompt) && text.startsWith(prompt)) {
        const end = prompt.length + generatedLength(whole.slice(prompt.length), message.content, endTexts);
        add(prompt.length, index, false);
        if (text.startsWith(whole.slice(0, end))) add(end, index, true);
      }
    }
    add(commonPrefix(whole, text), index, false);
  });
  const last = options.addGenerationPrompt ? messages.length : messages.length - 1;
  add(text.length, last, false);
  return stretches;
}

/** How much of what follows the assistant's opening is its own: up to and including the end-of-turn token. */
function generatedLength(turn: string, content: string, endTexts: readonly string[]): number {
  const ends = endTexts.map((end) => ({ at: turn.lastIndexOf(end), length: end.length })).filter(({ at }) => at >= 0);
  if (ends.length > 0) return Math.max(...ends.map(({ at, length }) => at + length));
  const at = turn.indexOf(content);
  return at >= 0 && content !== "" ? at + content.length : turn.trimEnd().length;
}

function commonPrefix(a: string, b: string): number {
  if (b.startsWith(a)) return a.length;
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  return length;
}

/**
 * Tokenises each run between two changes of `generated` in one go, because that is how sampling met it (prompt, reply, next
 * prompt piece, …), and then deals its tokens out to the messages. A token across a boundary goes to the later message.
 */
function cutIntoSegments(codec: TextCodec, text: string, stretches: readonly Stretch[]): TokenSegment[] {
  const segments: TokenSegment[] = [];
  let from = 0;
  for (let first = 0; first < stretches.length; ) {
    const { generated } = stretches[first]!;
    let next = first;
    while (stretches[next]?.generated === generated) next++;
    // Two replies in a row are two runs: the model stopped in between.
    if (generated) next = first + 1;
    const before = text.slice(0, from);
    const run = encodeContinuation(codec, before, text.slice(from, stretches[next - 1]!.end));
    let done = 0;
    for (const { end, message } of stretches.slice(first, next)) {
      const upTo = end === stretches[next - 1]!.end ? run : encodeContinuation(codec, before, text.slice(from, end));
      let count = done;
      while (count < upTo.length && upTo[count] === run[count]) count++;
      if (count > done) segments.push({ tokens: Int32Array.from(run.slice(done, count)), message, generated });
      done = count;
    }
    from = stretches[next - 1]!.end;
    first = next;
  }
  return segments;
}
