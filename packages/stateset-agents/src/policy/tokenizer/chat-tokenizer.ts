import type { Message } from "../../conversation/message.ts";
import { StatesetError } from "../../error.ts";
import type { ChatTokenizer, RenderOptions } from "../policy.ts";
import type { ChatRenderer } from "./chat-renderer.ts";
import { type TextCodec, wellFormed } from "./codec.ts";
import { createContinuation } from "./continuation.ts";
import { createForeignText, unmarked } from "./foreign-text.ts";
import { unmark } from "./marks.ts";
import { segmentsOf } from "./segments.ts";
import { createTextStream, type TextStream } from "./text-stream.ts";

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
  const foreign = createForeignText(codec.controlTokens.map(({ text }) => text));
  const printWith = (writer: typeof foreign) => (messages: readonly Message[], options: RenderOptions) => {
    if (messages.length === 0) throw new StatesetError("INVALID_MESSAGE", "There are no messages to render.");
    return wellFormed(renderer(messages, options, writer));
  };
  const parts = { codec, print: printWith(foreign), mark: foreign.text, endTokens, endTexts };
  const read = printWith(unmarked);
  return {
    vocabSize: codec.vocabSize,
    endTokens,
    bosToken,
    encode: (text, { control = false } = {}) =>
      Int32Array.from(codec.encode((control ? unmarked : foreign).text(text))),
    decode(tokens, { skipSpecial = true } = {}) {
      const ids = Array.from(tokens);
      return codec.decode(skipSpecial ? ids.filter((id) => !skipped.has(id)) : ids);
    },
    render: (messages, options = {}) => unmark(read(messages, options)),
    segments: (messages, options = {}) => segmentsOf(parts, messages, options),
    extend: createContinuation(parts),
    createTextStream: () => createTextStream((tokens) => codec.decode(tokens), skipped),
  };
}
