/** A reply while it is sampled: its words, its thoughts, its calls, piece by piece. */
import { splitThought } from "../../../agent/reasoning.ts";
import type { ChatTokenizer, SampleToken } from "../../../policy/policy.ts";
import type { CallFormat } from "../../../tool/format/call-format.ts";
import { type CallEvent, streamCalls } from "../../../tool/format/stream-calls.ts";

export type Piece = CallEvent | { kind: "reasoning"; text: string };

export interface LiveReply {
  push(token: SampleToken): void;
  end(): void;
}

export interface LiveReplyOptions {
  tokenizer: Pick<ChatTokenizer, "decode">;
  /** How calls are written; undefined: there are none. */
  format: CallFormat | undefined;
  reasoning: boolean;
  /** Calls are valid by construction, so that they can be told while they are sampled. */
  held: boolean;
  emit: (piece: Piece) => void;
}

export function createLiveReply({ tokenizer, format, reasoning, held, emit }: LiveReplyOptions): LiveReply {
  const calls = format && streamCalls({ format, live: held });
  const emitAll = (pieces: readonly Piece[]) => {
    for (const piece of pieces) emit(piece);
  };
  const answer = (text: string) => emitAll(calls ? calls.push(text) : [{ kind: "text", text }]);
  const thought = reasoning
    ? splitThought({ answer, thought: (text) => emit({ kind: "reasoning", text }) })
    : { push: answer, end: () => {} };
  return {
    push({ token, text }) {
      // Special tokens have no text; those that open a call count.
      const printed = text === "" && format ? tokenizer.decode([token], { skipSpecial: false }) : text;
      const shown = text === "" && !format?.markers.includes(printed.trim()) ? "" : printed;
      if (shown !== "") thought.push(shown);
    },
    end() {
      thought.end();
      if (calls) emitAll(calls.end());
    },
  };
}
