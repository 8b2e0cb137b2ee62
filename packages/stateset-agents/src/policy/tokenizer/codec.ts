import { type ControlToken, sinceLastSign } from "./control-tokens.ts";
import type { TokenBytes } from "./token-bytes.ts";
import type { TracedText } from "./traced-text.ts";

/** Text to token ids and back; what a chat tokenizer needs to know of a vocabulary. */
export interface TextCodec {
  /** The largest id + 1. */
  readonly vocabSize: number;
  /** Well-formed text with a sign for every control token that its own part spells (control-tokens.ts). */
  sign(text: TracedText): string;
  /** Takes signed text: control tokens are where their signs are, and nowhere else. Nothing is added. */
  encode(signed: string): readonly number[];
  /** Every token printed, special ones too. Ids outside the vocabulary print as nothing. */
  decode(tokens: readonly number[]): string;
  /** Every token that foreign text must not become. */
  readonly controlTokens: readonly ControlToken[];
  /** Tokens that carry structure rather than text; left out of what a user reads. */
  readonly specialIds: ReadonlySet<number>;
  /** Undefined where what a token spells depends on its neighbours. */
  tokenBytes(): TokenBytes | undefined;
}

/**
 * The tokens of the signed `text` when it continues `before`. Encoding it alone can differ: some tokenizers put a space before whatever
 * they are given, and cut words by what stands around them. Tokens of `before` are never changed; when the two would merge into
 * one token across the seam, the text is cut there instead.
 */
export function encodeContinuation(codec: TextCodec, before: string, text: string): readonly number[] {
  if (text === "") return [];
  if (before === "") return codec.encode(text);
  // Nothing merges across a control token, so what came before the last one does not matter. The other contexts are for the
  // case that the seam does merge: any character that does not will do.
  for (const context of [sinceLastSign(before), "\n", "a", "."]) {
    const head = codec.encode(context);
    const whole = codec.encode(context + text);
    if (head.every((token, i) => whole[i] === token)) return whole.slice(head.length);
  }
  return codec.encode(text);
}
