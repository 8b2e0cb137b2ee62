/** Pieces of grammar, and pieces made of pieces. */
import type { CharSet } from "../schema/regex-syntax.ts";
import type { Edge, Grammar, Nfa, Place } from "./nfa.ts";

export const nothing: Grammar = (_nfa, to) => to;
/** Cannot be written at all. */
export const impossible: Grammar = (nfa) => nfa.dead;

export function text(written: string): Grammar {
  const bytes = Buffer.from(written, "utf8");
  return (nfa, to) => bytes.reduceRight((place, byte) => nfa.byte(byte, byte, place), to);
}

export function sequence(...parts: readonly (Grammar | string)[]): Grammar {
  return (nfa, to) =>
    parts.reduceRight<Place>((place, part) => (place === nfa.dead ? place : of(part)(nfa, place)), to);
}

export function choice(...parts: readonly (Grammar | string)[]): Grammar {
  return (nfa, to) => (to === nfa.dead ? to : nfa.either(...parts.map((part) => of(part)(nfa, to))));
}

export function optional(part: Grammar | string): Grammar {
  return choice(part, nothing);
}

export function repeat(part: Grammar, min: number, max: number): Grammar {
  return (nfa, to) => {
    if (to === nfa.dead) return to;
    let place: Place = to;
    for (let i = max; i > 0; i--) {
      nfa.work();
      place = i > min ? nfa.either(part(nfa, place), to) : part(nfa, place);
    }
    return place;
  };
}

/** Parts with `between` between them. */
export function list(part: Grammar, between: Grammar | string, min: number, max: number): Grammar {
  if (max === 0) return nothing;
  const some = sequence(part, repeat(sequence(between, part), Math.max(0, min - 1), max - 1));
  return min === 0 ? optional(some) : some;
}

/** Text that may be written as a control token. */
export function marker(written: string): Grammar {
  const spelt = text(written);
  return (nfa, to) => nfa.markerBefore(spelt(nfa, to));
}

function of(part: Grammar | string): Grammar {
  return typeof part === "string" ? text(part) : part;
}

/** One character of the set, in UTF-8. */
export function char(set: CharSet): Grammar {
  return (nfa, to) => nfa.branch(charEdges(nfa, set, to));
}

export function charEdges(nfa: Nfa, set: CharSet, to: Place): Edge[] {
  return set.flatMap(([from, last]) => rangesOf(from, last)).map((bytes) => edgeOf(nfa, bytes, to));
}

function edgeOf(nfa: Nfa, bytes: readonly Range[], to: Place): Edge {
  const [[low, high], ...rest] = bytes as [Range, ...Range[]];
  return { low, high, to: rest.reduceRight((place, [first, last]) => nfa.byte(first, last, place), to) };
}

type Range = readonly [number, number];

/** The largest code point of each number of bytes. Halves of pairs are no characters. */
const largest = [0x7f, 0x7ff, 0xd7ff, 0xdfff, 0xffff, 0x10ffff];

/** Sequences of ranges of bytes that together are the characters from–last. */
export function rangesOf(from: number, last: number): Range[][] {
  if (from > last) return [];
  const limit = largest.find((one) => from <= one)!;
  if (last > limit) return [...rangesOf(from, limit), ...rangesOf(limit + 1, last)];
  if (limit === 0xdfff) return [];
  if (last <= 0x7f) return [[[from, last]]];
  // Where the last six bits do not run through all of their values, the rest is split off.
  for (let bits = 6; bits < 24; bits += 6) {
    const ones = 2 ** bits - 1;
    const [high, highLast] = [Math.floor(from / 2 ** bits), Math.floor(last / 2 ** bits)];
    if (high === highLast) break;
    if ((from & ones) !== 0) return [...rangesOf(from, from | ones), ...rangesOf((from | ones) + 1, last)];
    if ((last & ones) !== ones) return [...rangesOf(from, (last & ~ones) - 1), ...rangesOf(last & ~ones, last)];
  }
  const [a, b] = [from, last].map((point) => [...Buffer.from(String.fromCodePoint(point!), "utf8")]);
  return [a!.map((byte, i): Range => [byte, b![i]!])];
}
