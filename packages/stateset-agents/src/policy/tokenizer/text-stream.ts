/** Turns tokens into text as they come. All pieces and the flush together are exactly the text of all tokens. */
export interface TextStream {
  /** The text that became certain with this token; "" inside a multi-byte character. */
  push(token: number): string;
  /** What was still held back, when no more tokens come. */
  flush(): string;
}

/**
 * A token's text can depend on its neighbours (bytes of one character, spaces at the start), so a short window is decoded twice:
 * without and with the new tokens. The window moves on only where the text ended in a complete character.
 */
export function createTextStream(
  decode: (tokens: readonly number[]) => string,
  skip: ReadonlySet<number> = new Set(),
): TextStream {
  let context: number[] = [];
  let pending: number[] = [];
  const settle = (final: boolean): string => {
    if (pending.length === 0) return "";
    const before = context.length === 0 ? "" : decode(context);
    const after = decode([...context, ...pending]);
    // U+FFFD at the end is most likely a character whose last bytes have yet to come.
    if (!final && after.endsWith("\uFFFD")) return "";
    // Tokens without text of their own make no context: a decoder may take what follows them for the start of the text.
    if (after.length <= before.length) return "";
    context = pending;
    pending = [];
    return after.slice(before.length);
  };
  return {
    push(token) {
      if (skip.has(token)) return "";
      pending.push(token);
      return settle(false);
    },
    flush: () => settle(true),
  };
}
