/**
 * Regular expressions as trees. A pattern in a schema may come from a stranger, and the engine of the language can take for ever on some;
 * what is read here is run by an automaton, in time proportional to the text. What no automaton can do (looking ahead or behind,
 * references to what a group matched) is refused.
 */
import { spend } from "./work.ts";

/** Code points from–to, in order, without overlap. */
export type CharSet = readonly (readonly [number, number])[];

export type RegexNode =
  | { kind: "char"; set: CharSet }
  | { kind: "sequence"; parts: readonly RegexNode[] }
  | { kind: "choice"; options: readonly RegexNode[] }
  | { kind: "repeat"; part: RegexNode; min: number /** Infinity: no limit. */; max: number }
  | { kind: "start" }
  | { kind: "end" }
  | { kind: "boundary"; not: boolean };

export const lastCodePoint = 0x10ffff;

/** As with the `u` flag. Throws a SyntaxError where it is no regular expression, or one that is not supported. */
export function parseRegex(pattern: string): RegexNode {
  // What is wrong in it the language says best.
  new RegExp(pattern, "u");
  return new Parser(pattern).whole();
}

export function normalised(ranges: CharSet): CharSet {
  const sorted = [...ranges].sort(([a], [b]) => a - b);
  const merged: [number, number][] = [];
  for (const [from, to] of sorted) {
    const last = merged.at(-1);
    if (last && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  return merged;
}

export function complement(set: CharSet): CharSet {
  const rest: [number, number][] = [];
  let from = 0;
  for (const [a, b] of normalised(set)) {
    if (a > from) rest.push([from, a - 1]);
    from = b + 1;
  }
  if (from <= lastCodePoint) rest.push([from, lastCodePoint]);
  return rest;
}

const code = (char: string) => char.codePointAt(0)!;
const one = (char: string): CharSet => [[code(char), code(char)]];
const digits: CharSet = [[48, 57]];
const words: CharSet = normalised([
  [48, 57],
  [65, 90],
  [95, 95],
  [97, 122],
]);
const spaces: CharSet = normalised([
  [9, 13],
  [32, 32],
  [160, 160],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
]);
const lineEnds: CharSet = normalised([
  [10, 10],
  [13, 13],
  [0x2028, 0x2029],
]);
const classes: Readonly<Record<string, CharSet>> = {
  ...{ d: digits, D: complement(digits), w: words, W: complement(words), s: spaces, S: complement(spaces) },
};
const controls: Readonly<Record<string, number>> = { n: 10, r: 13, t: 9, f: 12, v: 11, "0": 0 };

const properties = new Map<string, CharSet>();

/** Code points that are tried at once. */
const block = 0x1000;

/** Of `\p{…}`: asked of the language once for every code point. */
function property(written: string): CharSet {
  const known = properties.get(written);
  if (known) return known;
  // There are hundreds of them, and a pattern may name them all.
  spend(3e6);
  const runs = new RegExp(`${written}+`, "gu");
  const one = new RegExp(`^${written}$`, "u");
  const ranges: [number, number][] = [];
  for (let from = 0; from <= lastCodePoint; from += block) {
    // Halves of a pair are code points too, but side by side they would be pairs.
    const halves = from >= 0xd800 && from < 0xe000;
    const points = Array.from({ length: block }, (_, i) => from + i);
    if (halves) {
      for (const point of points) if (one.test(String.fromCodePoint(point))) ranges.push([point, point]);
      continue;
    }
    const units = from < 0x10000 ? 1 : 2;
    for (const { index, 0: run } of String.fromCodePoint(...points).matchAll(runs)) {
      const first = from + index / units;
      ranges.push([first, first + run.length / units - 1]);
    }
  }
  const set = normalised(ranges);
  properties.set(written, set);
  return set;
}

class Parser {
  readonly #chars: string[];
  #at = 0;
  #depth = 0;

  constructor(pattern: string) {
    this.#chars = [...pattern];
  }

  whole(): RegexNode {
    return this.#choice();
  }

  get #next(): string | undefined {
    return this.#chars[this.#at];
  }

  #take(text: string): boolean {
    if (![...text].every((char, i) => this.#chars[this.#at + i] === char)) return false;
    this.#at += [...text].length;
    return true;
  }

  #choice(): RegexNode {
    if (++this.#depth > 200) throw new SyntaxError("it is nested too deeply");
    const options = [this.#sequence()];
    while (this.#take("|")) options.push(this.#sequence());
    this.#depth--;
    return options.length === 1 ? options[0]! : { kind: "choice", options };
  }

  #sequence(): RegexNode {
    const parts: RegexNode[] = [];
    while (this.#next !== undefined && this.#next !== "|" && this.#next !== ")") parts.push(this.#repeated());
    return parts.length === 1 ? parts[0]! : { kind: "sequence", parts };
  }

  #repeated(): RegexNode {
    const part = this.#atom();
    const limits = this.#quantifier();
    if (!limits) return part;
    // Whether it is lazy does not change what matches.
    this.#take("?");
    return { kind: "repeat", part, ...limits };
  }

  #quantifier(): { min: number; max: number } | undefined {
    if (this.#take("*")) return { min: 0, max: Infinity };
    if (this.#take("+")) return { min: 1, max: Infinity };
    if (this.#take("?")) return { min: 0, max: 1 };
    const [whole, min, comma, max] =
      /^\{(\d+)(,?)(\d*)\}/.exec(this.#chars.slice(this.#at, this.#at + 40).join("")) ?? [];
    if (whole === undefined) return undefined;
    this.#at += whole.length;
    return { min: Number(min), max: comma === "" ? Number(min) : max === "" ? Infinity : Number(max) };
  }

  #atom(): RegexNode {
    if (this.#take("(")) return this.#group();
    if (this.#take("[")) return { kind: "char", set: this.#class() };
    if (this.#take("^")) return { kind: "start" };
    if (this.#take("$")) return { kind: "end" };
    if (this.#take(".")) return { kind: "char", set: complement(lineEnds) };
    if (this.#take("\\b")) return { kind: "boundary", not: false };
    if (this.#take("\\B")) return { kind: "boundary", not: true };
    if (this.#take("\\")) return { kind: "char", set: this.#escape() };
    return { kind: "char", set: one(this.#chars[this.#at++]!) };
  }

  #group(): RegexNode {
    for (const look of ["?=", "?!", "?<=", "?<!"]) {
      if (this.#take(look)) throw new SyntaxError(`it looks ahead or behind, with "(${look}"`);
    }
    if (!this.#take("?:") && this.#take("?<")) while (this.#chars[this.#at++] !== ">");
    const inner = this.#choice();
    this.#at++;
    return inner;
  }

  /** After a backslash. */
  #escape(): CharSet {
    const char = this.#chars[this.#at++]!;
    if (classes[char]) return classes[char];
    if (char === "p" || char === "P") {
      const end = this.#chars.indexOf("}", this.#at);
      const name = this.#chars.slice(this.#at, end + 1).join("");
      this.#at = end + 1;
      return property(`\\${char}${name}`);
    }
    if (/[1-9k]/.test(char)) throw new SyntaxError(`it refers to a group, with "\\${char}"`);
    if (controls[char] !== undefined) return [[controls[char], controls[char]]];
    if (char === "c") {
      const point = code(this.#chars[this.#at++]!) % 32;
      return [[point, point]];
    }
    if (char === "x" || char === "u") {
      const point = this.#codePoint(char);
      return [[point, point]];
    }
    return one(char);
  }

  #codePoint(kind: "x" | "u"): number {
    const hex = (length: number) => {
      const digits = this.#chars.slice(this.#at, this.#at + length).join("");
      this.#at += length;
      return Number.parseInt(digits, 16);
    };
    if (kind === "x") return hex(2);
    if (this.#take("{")) {
      const point = hex(this.#chars.indexOf("}", this.#at) - this.#at);
      this.#at++;
      return point;
    }
    const high = hex(4);
    const pair = high >= 0xd800 && high < 0xdc00 && this.#chars[this.#at] === "\\" && this.#chars[this.#at + 1] === "u";
    if (!pair) return high;
    const before = this.#at;
    this.#at += 2;
    const low = hex(4);
    if (low >= 0xdc00 && low < 0xe000) return (high - 0xd800) * 0x400 + (low - 0xdc00) + 0x10000;
    this.#at = before;
    return high;
  }

  /** After an opening bracket. */
  #class(): CharSet {
    const not = this.#take("^");
    const ranges: (readonly [number, number])[] = [];
    while (!this.#take("]")) {
      const set = this.#classAtom();
      const single = set.length === 1 && set[0]![0] === set[0]![1];
      if (single && this.#next === "-" && this.#chars[this.#at + 1] !== "]") {
        this.#at++;
        ranges.push([set[0]![0], this.#classAtom()[0]![0]]);
      } else ranges.push(...set);
    }
    return not ? complement(ranges) : normalised(ranges);
  }

  #classAtom(): CharSet {
    if (this.#take("\\b")) return [[8, 8]];
    return this.#take("\\") ? this.#escape() : one(this.#chars[this.#at++]!);
  }
}
