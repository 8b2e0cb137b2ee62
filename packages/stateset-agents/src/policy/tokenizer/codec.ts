/** Text to token ids and back; what a chat tokenizer needs to know of a vocabulary. */
export interface TextCodec {
  /** The largest id + 1. */
  readonly vocabSize: number;
  /** Special tokens written in the text are recognised; nothing is added to it. */
  encode(text: string): readonly number[];
  /** Every token printed, special ones too. Ids outside the vocabulary print as nothing. */
  decode(tokens: readonly number[]): string;
  /** Tokens that carry structure rather than text; left out of what a user reads. */
  readonly specialIds: ReadonlySet<number>;
  /** Texts the encoder always cuts out whole, before anything else is tokenised. */
  readonly atomicTexts: readonly string[];
  /** True when the text of a token does not depend on its place; false when spaces are dropped at the start of what is decoded. */
  readonly exact: boolean;
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
  // Nothing merges across an atomic text, so what came before the last one does not matter. The other contexts are for the
  // case that the seam does merge: any character that does not will do.
  for (const context of [sinceLastAtomic(codec, before), "\n", "a", "."]) {
    const head = codec.encode(context);
    const whole = codec.encode(context + text);
    if (head.every((token, i) => whole[i] === token)) return whole.slice(head.length);
  }
  return codec.encode(text);
}

function sinceLastAtomic({ atomicTexts }: TextCodec, text: string): string {
  const start = Math.max(0, ...atomicTexts.map((atomic) => text.lastIndexOf(atomic)));
  return text.slice(start);
}

/**
 * How much of `text` the recorded `chain` covers, or -1 when it does not begin with it. A codec that drops spaces when it decodes
 * a reply has not said what the reply's text was, so there spaces do not count.
 */
export function coveredBy(codec: TextCodec, chain: string, text: string): number {
  if (text.startsWith(chain)) return chain.length;
  if (codec.exact) return -1;
  let at = 0;
  for (const char of chain.replaceAll(" ", "")) {
    while (text[at] === " ") at++;
    if (!text.startsWith(char, at)) return -1;
    at += char.length;
  }
  return at;
}
