/**
 * A control token stands in a prompt as a sign: three halves of characters, which no text can hold, because text on its way to
 * a tokenizer is well-formed. So a prompt is one string that can be cut, searched and compared like any other, and no foreign
 * text in it is ever taken for a token. Signs are put only where a template's own text spells a token (traced-text.ts).
 */
import { marks, type TracedText } from "./traced-text.ts";
import { wellFormed } from "./well-formed.ts";

/** A token that only templates and policies make: every added token, special or not. */
export interface ControlToken {
  id: number;
  text: string;
}

/** The first half tells a sign from characters, and the three halves from each other. Ids have 25 bits. */
const signs = /[\uD800-\uD8FF][\uD900-\uD9FF][\uDA00-\uDBFF]/g;
const signLength = 3;

export function signOf(id: number): string {
  return String.fromCharCode(0xd800 + (id >> 17), 0xd900 + ((id >> 9) & 0xff), 0xda00 + (id & 0x1ff));
}

function idOf(sign: string): number {
  const half = (i: number, base: number) => sign.charCodeAt(i) - base;
  return (half(0, 0xd800) << 17) | (half(1, 0xd900) << 9) | half(2, 0xda00);
}

/** Text and ids of control tokens, in turn. */
export function splitAtSigns(signed: string): (string | number)[] {
  const parts: (string | number)[] = [];
  let from = 0;
  for (const { index, 0: sign } of signed.matchAll(signs)) {
    if (index > from) parts.push(signed.slice(from, index));
    parts.push(idOf(sign));
    from = index + signLength;
  }
  if (from < signed.length) parts.push(signed.slice(from));
  return parts;
}

/** What follows the last sign, with it; all of a text without signs. */
export function sinceLastSign(signed: string): string {
  for (let at = signed.length - signLength; at > 0; at--) {
    // The middle of a sign is like no half of a character with another half after it.
    if (isBetween(signed, at + 1, 0xd900, 0xd9ff) && isBetween(signed, at + 2, 0xda00, 0xdbff)) return signed.slice(at);
  }
  return signed;
}

/** Whether a signed text can be cut there: not inside a sign or a character. */
export function isBoundary(signed: string, at: number): boolean {
  return !isBetween(signed, at - 1, 0xd800, 0xd9ff) && !isBetween(signed, at, 0xdc00, 0xdfff);
}

function isBetween(text: string, at: number, least: number, most: number): boolean {
  const unit = text.charCodeAt(at);
  return unit >= least && unit <= most;
}

/**
 * Puts signs for the tokens that a text's own part spells. The leftmost spelling counts, and of two that begin together the
 * longer one, as in tokenizers. Tokens of the first kind go before those of the second.
 */
export function createSigner(...kinds: (readonly ControlToken[])[]): (text: TracedText) => string {
  const finders = kinds.filter((tokens) => tokens.length > 0).map(createFinder);
  return ({ text, own }) => {
    // Cannot happen; if it ever does, better no prompt than a forged one.
    if (text.length !== own.length) throw new Error("a text and the trace of who wrote it differ in length");
    return sign(wellFormed(text), own, finders);
  };
}

interface Finder {
  spellings: RegExp;
  ids: ReadonlyMap<string, number>;
}

function createFinder(tokens: readonly ControlToken[]): Finder {
  const spellable = tokens.filter(({ text }) => !Object.values(marks).some((mark) => text.includes(mark)));
  const ids = new Map(spellable.map(({ text, id }) => [text, id]));
  const longestFirst = [...ids.keys()].sort((a, b) => b.length - a.length);
  // The empty class matches nothing.
  return { ids, spellings: new RegExp(longestFirst.map(escapeRegExp).join("|") || "[]", "g") };
}

function sign(text: string, own: string, [finder, ...others]: readonly Finder[]): string {
  if (!finder) return text;
  let signed = "";
  let from = 0;
  for (const { index, 0: spelling } of own.matchAll(finder.spellings)) {
    signed += sign(text.slice(from, index), own.slice(from, index), others) + signOf(finder.ids.get(spelling)!);
    from = index + spelling.length;
  }
  return signed + sign(text.slice(from), own.slice(from), others);
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
}
