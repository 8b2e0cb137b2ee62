/**
 * A reply that is told as it grows: its words, and its calls, a call's name first and then its arguments bit by bit. Joined, that is what
 * `parse()` reads of the whole.
 */
import { type CallFormat, isUnreadable } from "./call-format.ts";
import { CallText } from "./call-text.ts";
import { findCalls } from "./choose-format.ts";

export type CallEvent =
  | { kind: "text"; text: string }
  | { kind: "call"; index: number; name: string }
  | { kind: "arguments"; index: number; text: string };

export interface StreamCallsOptions {
  format: CallFormat;
  /**
   * True for constrained replies, whose calls are certain to be valid: they are told while they are sampled. False, the default: at the
   * end, and only if all of them can be read; otherwise the reply is words.
   */
  live?: boolean | undefined;
  /** True: also the space between words and calls, which is no part of either, for who prints several replies behind one another. */
  space?: boolean | undefined;
}

export interface CallStream {
  /** What follows, special tokens printed. */
  push(text: string): CallEvent[];
  end(): CallEvent[];
}

export function streamCalls({ format, live = false, space = false }: StreamCallsOptions): CallStream {
  let [text, told] = ["", 0];
  /** How much of each one's arguments was told. */
  const calls: number[] = [];
  // Formats whose calls are no JSON have none: theirs are told at the end.
  let find = live ? findCalls(format) : undefined;
  let current: { index: number; read: CallText } | undefined;
  let at = 0;

  const words = (end: number): CallEvent[] => {
    const more = text.slice(told, end);
    told = Math.max(told, end);
    return more === "" ? [] : [{ kind: "text", text: more }];
  };
  const call = (index: number, name: string, written: string): CallEvent[] => {
    const events: CallEvent[] = calls[index] === undefined ? [{ kind: "call", index, name }] : [];
    const more = written.slice(calls[index] ?? 0);
    calls[index] = Math.max(written.length, calls[index] ?? 0);
    return more === "" ? events : [...events, { kind: "arguments", index, text: more }];
  };
  /** What there is of calls beyond what was told. */
  const grown = (): CallEvent[] => {
    const events: CallEvent[] = [];
    while (find) {
      const found = current ? undefined : find(text, at);
      if (found) current = { index: calls.length, read: new CallText(found) };
      if (!current) break;
      const { name, from, to, end, unusual } = current.read.read(text);
      // From here on all waits for the end.
      if (unusual) find = undefined;
      else if (name !== undefined)
        events.push(...call(current.index, name, from === undefined ? "" : text.slice(from, to)));
      if (unusual || end === undefined) break;
      at = end;
      current = undefined;
    }
    return events;
  };

  return {
    push(more) {
      text += more;
      const certain = calls.length > 0 ? "" : text.slice(0, format.certain(text));
      return [...words((space ? certain : certain.trimEnd()).length), ...grown()];
    },
    end() {
      const read = format.parse(text);
      // Calls that were told before the token limit cut the last one stay calls.
      if (calls.length === 0 && read.calls.some(isUnreadable)) return words(text.length);
      const known = read.calls.flatMap((one, i) => (isUnreadable(one) ? [] : call(i, one.name, one.arguments)));
      return [...words(calls.length > 0 ? read.content.length : text.length), ...known];
    },
  };
}
