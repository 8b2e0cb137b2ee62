/** Log-probs of a text's tokens as /v1/completions tells them: columns, in the order of the text. */
import type { ChatTokenizer, TokenLogprob } from "../../../policy/policy.ts";
import { createTextStream, type TextStream } from "../../../policy/tokenizer/index.ts";
import { writeLogprob } from "../logprobs.ts";

export interface WrittenTokens {
  tokens: string[];
  /** Null for the first token of a text, which nothing comes before. */
  token_logprobs: (number | null)[];
  /** The likeliest, and the one that stands there. */
  top_logprobs: (Record<string, number> | null)[];
  /** Where the token begins in prompt and reply together, in characters, whether or not the prompt is told. */
  text_offset: number[];
}

export class TokenWriter {
  readonly #tokenizer: Pick<ChatTokenizer, "decode">;
  readonly #text: TextStream;
  #offset = 0;
  #written: WrittenTokens = none();

  constructor(tokenizer: Pick<ChatTokenizer, "decode">) {
    this.#tokenizer = tokenizer;
    // Special tokens are no part of a text, and take no room in it.
    this.#text = createTextStream((tokens) => tokenizer.decode(tokens));
  }

  /** Text that is not told of. */
  skip(tokens: Iterable<number>): void {
    for (const token of tokens) this.#move(token);
  }

  /** Without a log-prob: the first token of all. */
  add({ token, logprob, topLogprobs = [] }: AddedToken): void {
    const { tokens, token_logprobs, top_logprobs, text_offset } = this.#written;
    const {
      token: text,
      logprob: own,
      top_logprobs: top,
    } = writeLogprob({ token, logprob: logprob ?? 0, topLogprobs }, this.#tokenizer);
    tokens.push(text);
    token_logprobs.push(logprob === undefined ? null : own);
    // Of tokens that are spelt alike the likeliest counts, and the one that stands there before all.
    const likeliest = top.toReversed().map((one): [string, number] => [one.token, one.logprob]);
    top_logprobs.push(logprob === undefined ? null : Object.fromEntries([...likeliest, [text, own]]));
    text_offset.push(this.#offset);
    this.#move(token);
  }

  /** What was added since the last time. */
  take(): WrittenTokens {
    const written = this.#written;
    this.#written = none();
    return written;
  }

  #move(token: number): void {
    this.#offset += [...this.#text.push(token)].length;
  }
}

export interface AddedToken {
  token: number;
  logprob: number | undefined;
  topLogprobs?: readonly TokenLogprob[] | undefined;
}

function none(): WrittenTokens {
  return { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] };
}
