/** A reply while it is sampled: its words, its thoughts, its calls, piece by piece. */
import { splitThought } from "../../../agent/reasoning.ts";
import type { ChatTokenizer, SampleToken } from "../../../policy/policy.ts";
import { type CallFormat, isUnreadable } from "../../../tool/format/call-format.ts";
import { type CallEvent, streamCalls } from "../../../tool/format/stream-calls.ts";

export type Piece = CallEvent | { kind: "reasoning"; text: string };

export interface LiveReply {
  push(token: Pick<SampleToken, "token" | "text">): void;
  end(): void;
}

export interface LiveReplyOptions {
  tokenizer: Pick<ChatTokenizer, "decode">;
  /** Of the model: what ends a reply is no part of it. */
  endTokens: readonly number[];
  /** How calls are written; undefined: there are none. */
  format: CallFormat | undefined;
  reasoning: boolean;
  /** Calls are valid by construction, so that they can be told while they are sampled. */
  held: boolean;
  emit: (piece: Piece) => void;
}

export function createLiveReply(options: LiveReplyOptions): LiveReply {
  const { tokenizer, endTokens, format, reasoning, held, emit } = options;
  const answer = format ? answerWithCalls(format, held, emit) : plainAnswer(emit);
  const thought = reasoning
    ? splitThought({ answer: answer.push, thought: (text) => emit({ kind: "reasoning", text }) })
    : { push: answer.push, end: () => {} };
  return {
    push({ token, text }) {
      if (text !== "") return thought.push(text);
      if (!format || endTokens.includes(token) || tokenizer.decode([token]) !== "") return;
      // Special tokens have no text. Those that open a call count, and so do all inside one.
      const printed = tokenizer.decode([token], { skipSpecial: false });
      if (!reasoning || answer.begun) answer.special(printed);
      else if (format.markers.includes(printed.trim())) thought.push(printed);
    },
    end() {
      thought.end();
      answer.end();
    },
  };
}

interface SpokenAnswer {
  readonly begun: boolean;
  push(text: string): void;
  special(printed: string): void;
  end(): void;
}

function plainAnswer(emit: (piece: Piece) => void): SpokenAnswer {
  return { begun: false, push: (text) => emit({ kind: "text", text }), special: () => {}, end: () => {} };
}

/** Of special tokens, words have none and calls have theirs, as readReply() reads them. */
function answerWithCalls(format: CallFormat, held: boolean, emit: (piece: Piece) => void): SpokenAnswer {
  const calls = streamCalls({ format, live: held });
  let [printed, told] = ["", 0];
  const specials: { from: number; to: number }[] = [];
  /** Text events tell the reply from its beginning on. */
  const emitAll = (pieces: readonly CallEvent[], words = Number.POSITIVE_INFINITY) => {
    for (const piece of pieces) {
      if (piece.kind !== "text") {
        emit(piece);
        continue;
      }
      const end = told + piece.text.length;
      let text = "";
      for (const { from, to } of specials) {
        if (from < told || to > end || from >= words) continue;
        text += printed.slice(told, from);
        told = to;
      }
      text += printed.slice(told, end);
      told = end;
      if (text !== "") emit({ kind: "text", text });
    }
  };
  const push = (text: string) => {
    printed += text;
    emitAll(calls.push(text));
  };
  return {
    get begun() {
      return printed !== "";
    },
    push,
    special(text) {
      specials.push({ from: printed.length, to: printed.length + text.length });
      push(text);
    },
    end() {
      const { calls: read, content } = format.parse(printed);
      emitAll(calls.end(), read.some(isUnreadable) ? content.length : undefined);
    },
  };
}
