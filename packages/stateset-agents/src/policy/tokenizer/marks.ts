/**
 * Marks set foreign text apart inside a prompt on its way from a chat template to the tokenizer (see foreign-text.ts). They are
 * Unicode noncharacters, which no text means anything by; where foreign text holds one all the same, it is escaped, so that
 * every text comes back as it was.
 */

/** Belongs to the character before it: nothing that begins there is a token. */
export const afterMark = "\uFDD0";
/** Belongs to the character after it: nothing that ends there is a token. */
export const beforeMark = "\uFDD1";
/** The next character stands for a foreign one. */
export const escapeMark = "\uFDD2";

const marks = new RegExp(`${escapeMark}([^])|[${beforeMark}${afterMark}]`, "gu");
const units = new RegExp(`${beforeMark}?(?:${escapeMark}[^]|[^])${afterMark}?`, "gu");

function hasMarks(text: string): boolean {
  return text.includes(afterMark) || text.includes(beforeMark) || text.includes(escapeMark);
}

/** A foreign character in a form that neither tokens nor JSON know: shifted to a private plane. */
export function escapeForeign(char: string): string {
  const point = char.codePointAt(0)!;
  return escapeMark + (point < 0x10000 ? String.fromCodePoint(0xf0000 + point) : char);
}

/** The text itself. */
export function unmark(text: string): string {
  if (!hasMarks(text)) return text;
  return text.replace(marks, (_, escaped: string | undefined) => {
    const point = escaped?.codePointAt(0) ?? 0;
    return point >= 0xf0000 && point < 0x100000 ? String.fromCodePoint(point - 0xf0000) : (escaped ?? "");
  });
}

/** The characters of a text, each with its marks. */
export function unitsOf(text: string): string[] {
  return text.match(units) ?? [];
}

/** `text.split(separator)`, found through marks; the pieces keep theirs. After `most` cuts the rest stays whole. */
export function splitMarked(text: string, separator: string, most = Number.POSITIVE_INFINITY): string[] {
  const plain = unmark(text);
  const sought = unmark(separator);
  const pieces: string[] = [];
  let from = 0;
  let at = plain.indexOf(sought);
  // Where a character of the plain text begins in the marked one.
  const places = at < 0 ? [] : placesOf(text);
  while (at >= 0 && pieces.length < most) {
    pieces.push(text.slice(from, places[at]));
    from = places[at + sought.length]!;
    at = plain.indexOf(sought, at + sought.length);
  }
  return [...pieces, text.slice(from)];
}

function placesOf(text: string): number[] {
  const places: number[] = [];
  let place = 0;
  for (const unit of unitsOf(text)) {
    for (let i = unmark(unit).length; i > 0; i--) places.push(place);
    place += unit.length;
  }
  return [...places, place];
}
