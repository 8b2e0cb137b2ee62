/** Strings of JSON. Characters are written as they are, in UTF-8; only what must be escaped is, in the short form. */
import { type CharSet, complement, lastCodePoint } from "../schema/regex-syntax.ts";
import { charEdges, repeat, sequence } from "./grammar.ts";
import type { Grammar } from "./nfa.ts";

/** How they are written after a backslash. */
const escaped = new Map([
  [0x08, "b"],
  [0x09, "t"],
  [0x0a, "n"],
  [0x0c, "f"],
  [0x0d, "r"],
  [0x22, '"'],
  [0x5c, "\\"],
]);

/** What cannot be written as it is. */
const unwritable: CharSet = [
  [0, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
];
const plain = complement(unwritable);
const any: CharSet = [[0, lastCodePoint]];

/** One character of the set. Control characters without a short form cannot be written. */
export function stringChar(set: CharSet): Grammar {
  const written = intersection(set, plain);
  const short = [...escaped].filter(([point]) => contains(set, point)).map(([, letter]) => letter.charCodeAt(0));
  return (nfa, to) => {
    const after = nfa.branch(short.map((byte) => ({ low: byte, high: byte, to })));
    return nfa.branch([...charEdges(nfa, written, to), { low: 0x5c, high: 0x5c, to: after }]);
  };
}

/** Of so many characters; surrogate pairs are one. */
export function stringGrammar(min: number, max: number): Grammar {
  const one = stringChar(any);
  if (max !== Infinity) return quoted(repeat(one, min, max));
  return quoted(sequence(repeat(one, min, min), (nfa, to) => nfa.loop(one, to)));
}

export function quoted(content: Grammar): Grammar {
  return sequence('"', content, '"');
}

export function intersection(a: CharSet, b: CharSet): CharSet {
  return complement([...complement(a), ...complement(b)]);
}

function contains(set: CharSet, point: number): boolean {
  return set.some(([from, to]) => from <= point && point <= to);
}
