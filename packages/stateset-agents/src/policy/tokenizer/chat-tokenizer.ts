import type { Message } from "../../conversation/message.ts";
import { StatesetError } from "../../error.ts";
import type { ChatTokenizer, RenderOptions } from "../policy.ts";
import type { ChatRenderer } from "./chat-renderer.ts";
import type { TextCodec } from "./codec.ts";
import { createContinuation } from "./continuation.ts";
import { signOf } from "./control-tokens.ts";
import { segmentsOf } from "./segments.ts";
import { createTextStream, type TextStream } from "./text-stream.ts";
import type { TokenBytes } from "./token-bytes.ts";
import { foreignText, ownText } from "./traced-text.ts";
import { wellFormed } from "./well-formed.ts";

/** What engines need beyond the ChatTokenizer contract. */
export interface LoadedTokenizer extends ChatTokenizer {
  /** Tokens that end a reply. */
  readonly endTokens: readonly number[];
  readonly bosToken: number | undefined;
  /** Text of tokens as they come, without special tokens. */
  createTextStream(): TextStream;
  /** What each token spells; undefined where that depends on its neighbours. */
  tokenBytes(): TokenBytes | undefined;
}

export interface ChatTokenizerParts {
  codec: TextCodec;
  renderer: ChatRenderer;
  endTokens: readonly number[];
  bosToken?: number;
}

export function createChatTokenizer({ codec, renderer, endTokens, bosToken }: ChatTokenizerParts): LoadedTokenizer {
  const control = new Set(codec.controlTokens.map(({ id }) => id));
  const endTexts = endTokens
    .map((token) => (control.has(token) ? signOf(token) : codec.decode([token])))
    .filter((text) => text !== "");
  // Some models declare their end-of-turn token as an ordinary one; it is no part of a reply's text all the same.
  const skipped: ReadonlySet<number> = new Set([...codec.specialIds, ...endTokens]);
  const render = (messages: readonly Message[], options: RenderOptions, reply?: number) => {
    if (messages.length === 0) throw new StatesetError("INVALID_MESSAGE", "There are no messages to render.");
    return renderer.print(messages, options, reply);
  };
  const parts = {
    codec,
    print: (messages: readonly Message[], options: RenderOptions) => codec.sign(render(messages, options)),
    trace: render,
    lookedFor: renderer.lookedFor,
    measures: () => renderer.measures,
    endTokens,
    endTexts,
  };
  return {
    vocabSize: codec.vocabSize,
    endTokens,
    bosToken,
    encode: (text, { control = false } = {}) =>
      Int32Array.from(codec.encode(codec.sign(control ? ownText(text) : foreignText(text)))),
    decode(tokens, { skipSpecial = true } = {}) {
      const ids = Array.from(tokens);
      return codec.decode(skipSpecial ? ids.filter((id) => !skipped.has(id)) : ids);
    },
    render: (messages, options = {}) => wellFormed(render(messages, options).text),
    segments: (messages, options = {}) => segmentsOf(parts, messages, options),
    extend: createContinuation(parts),
    tokenBytes: codec.tokenBytes,
    createTextStream: () => createTextStream((tokens) => codec.decode(tokens), skipped),
  };
}
