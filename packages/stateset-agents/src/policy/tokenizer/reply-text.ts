import type { TextStream } from "./text-stream.ts";

/** The text of a reply while it is sampled, watched for stop texts. What is given out is never taken back. */
export interface ReplyText {
  /** The text that became certain; held back while it may be the beginning of a stop text. */
  push(token: number): string;
  /** What was still held back, when no more tokens come. */
  finish(): string;
  /** True once a stop text has appeared: sample no further. */
  readonly stopped: boolean;
  /** Everything given out so far: after finish(), the reply without its stop text. */
  readonly text: string;
}

export function createReplyText(stream: TextStream, stop: readonly string[]): ReplyText {
  const stops = stop.filter((text) => text !== "");
  let given = "";
  let held = "";
  let stopped = false;
  const give = (piece: string) => {
    given += piece;
    return piece;
  };
  const watch = (piece: string, final: boolean): string => {
    if (stopped) return "";
    held += piece;
    const at = Math.min(...stops.map((text) => held.indexOf(text)).map((index) => (index < 0 ? Infinity : index)));
    if (at < Infinity) {
      stopped = true;
      const before = held.slice(0, at);
      held = "";
      return give(before);
    }
    const keep = final ? 0 : longestBeginning(held, stops);
    const certain = held.slice(0, held.length - keep);
    held = held.slice(held.length - keep);
    return give(certain);
  };
  return {
    push: (token) => watch(stream.push(token), false),
    finish: () => watch(stream.flush(), true),
    get stopped() {
      return stopped;
    },
    get text() {
      return given;
    },
  };
}

/** The length of the longest end of `text` that a stop text begins with. */
function longestBeginning(text: string, stops: readonly string[]): number {
  let longest = 0;
  for (const stop of stops) {
    for (let length = Math.min(stop.length - 1, text.length); length > longest; length--) {
      if (text.endsWith(stop.slice(0, length))) longest = length;
    }
  }
  return longest;
}
