import type { Message } from "../../conversation/message.ts";
import { StatesetError } from "../../error.ts";
import type { RenderOptions, TokenSegment } from "../policy.ts";
import { encodeContinuation, type TextCodec } from "./codec.ts";
import { isBoundary, splitAtSigns } from "./control-tokens.ts";
import { ownText } from "./traced-text.ts";
import { wellFormed } from "./well-formed.ts";

export interface SegmentParts {
  codec: TextCodec;
  /** Signed text. */
  print(messages: readonly Message[], options: RenderOptions): string;
  /** What replies end with, as it stands in signed text. */
  endTexts: readonly string[];
}

/** The conversation in token segments. Everything here is signed text, so foreign text is never taken for an end of turn. */
export function segmentsOf(parts: SegmentParts, messages: readonly Message[], options: RenderOptions): TokenSegment[] {
  const text = parts.print(messages, options);
  return cutIntoSegments(parts.codec, text, findStretches(parts, text, messages, options));
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
  { print, endTexts }: SegmentParts,
  text: string,
  messages: readonly Message[],
  options: RenderOptions,
): Stretch[] {
  const stretches: Stretch[] = [];
  const add = (end: number, message: number, generated: boolean) => {
    if (end > (stretches.at(-1)?.end ?? 0)) stretches.push({ end, message, generated });
  };
  // Some templates refuse some prefixes (a lone system message, a missing user turn): then there is no boundary there.
  const attempt = (prefix: readonly Message[], addGenerationPrompt: boolean) => {
    try {
      return prefix.length === 0 ? undefined : print(prefix, { ...options, addGenerationPrompt });
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
export function generatedLength(turn: string, content: string, endTexts: readonly string[]): number {
  const ends = endTexts.map((end) => ({ at: turn.lastIndexOf(end), length: end.length })).filter(({ at }) => at >= 0);
  if (ends.length > 0) return Math.max(...ends.map(({ at, length }) => at + length));
  const at = turn.indexOf(wellFormed(content));
  return at >= 0 && content !== "" ? at + content.length : turn.trimEnd().length;
}

function commonPrefix(a: string, b: string): number {
  if (b.startsWith(a)) return a.length;
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  while (length > 0 && !isBoundary(a, length)) length--;
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
    const said = text.slice(from, stretches[next - 1]!.end);
    const run = encodeContinuation(codec, before, said);
    const spelt = generated ? speltIn(codec, said) : [];
    let done = 0;
    for (const { end, message } of stretches.slice(first, next)) {
      const upTo = end === stretches[next - 1]!.end ? run : encodeContinuation(codec, before, text.slice(from, end));
      let count = done;
      while (count < upTo.length && upTo[count] === run[count]) count++;
      const tokens = Int32Array.from(run.slice(done, count));
      if (count > done) segments.push({ tokens, message, generated, ...(spelt.length > 0 && { spelt }) });
      done = count;
    }
    from = stretches[next - 1]!.end;
    first = next;
  }
  return segments;
}

/** The tokens that would be here if a template had written all of it. */
function speltIn(codec: TextCodec, signed: string): string[] {
  const plain = splitAtSigns(signed).filter((part) => typeof part === "string");
  const found = plain
    .flatMap((text) => splitAtSigns(codec.sign(ownText(text))))
    .filter((part) => typeof part === "number");
  return [...new Set(found)].map((id) => codec.decode([id]));
}
