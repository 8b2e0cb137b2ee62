import type { ControlToken } from "./control-tokens.ts";

/** Text to token ids and back; what a chat tokenizer needs to know of a vocabulary. */
export interface TextCodec {
  /** The largest id + 1. */
  readonly vocabSize: number;
  /** Takes marked text (marks.ts): control tokens are recognised where they are spelt outside foreign text, and nowhere else. Nothing is added. */
  encode(marked: string): readonly number[];
  /** Every token printed, special ones too. Ids outside the vocabulary print as nothing. */
  decode(tokens: readonly number[]): string;
  /** Every token that foreign text must not become. */
  readonly controlTokens: readonly ControlToken[];
  /** Tokens that carry structure rather than text; left out of what a user reads. */
  readonly specialIds: ReadonlySet<number>;
}

/** UTF-16 may hold half a character, UTF-8 may not: such halves become U+FFFD, as every UTF-8 encoder writes them. */
export function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "\uFFFD");
}

/**
 * The tokens of `text` when it continues `before`. Encoding it alone can differ: some tokenizers put a space before whatever
 * they are given, and cut words by what stands around them. Tokens of `before` are never changed; when the two would merge into
 * one token across the seam, the text is cut there instead.
 */
export function encodeContinuation(codec: TextCodec, before: string, text: string): readonly number[] {
  if (text === "") return [];
  if (before === "") return codec.encode(text);
  // Nothing merges across a control token, so what came before the last one does not matter. The other contexts are for the
  // case that the seam does merge: any character that does not will do.
  for (const context of [sinceLastControl(codec, before), "\n", "a", "."]) {
    const head = codec.encode(context);
    const whole = codec.encode(context + text);
    if (head.every((token, i) => whole[i] === token)) return whole.slice(head.length);
  }
  return codec.encode(text);
}

function sinceLastControl({ controlTokens }: TextCodec, marked: string): string {
  const start = Math.max(0, ...controlTokens.map(({ text }) => marked.lastIndexOf(text)));
  return marked.slice(start);
}
