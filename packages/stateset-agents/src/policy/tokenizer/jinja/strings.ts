import {
  changedInPlace,
  charactersOf,
  concat,
  foreignText,
  join,
  type Mark,
  ownText,
  slice,
  type TracedText,
} from "../traced-text.ts";
import {
  type Arguments,
  ArrayValue,
  argument,
  argumentsOf,
  BooleanValue,
  FunctionValue,
  IntegerValue,
  StringValue,
  type Value,
} from "./library.ts";

/**
 * A string of a template that remembers who wrote it. Its methods are Python's where the library's are not: strip(), lstrip()
 * and rstrip() take the characters to be stripped, and templates such as Qwen3's depend on it (`content.lstrip('\n')` must keep
 * leading spaces).
 */
export class TracedString extends StringValue implements TracedText {
  readonly own: string;

  constructor({ text, own }: TracedText) {
    super(text);
    this.own = own;
  }

  get text(): string {
    return this.value;
  }

  override get builtins(): ReadonlyMap<string, Value> {
    const get = (name: string) => {
      if (name === "length") return new IntegerValue(charactersOf(this).length);
      const method = methods[name];
      return method && new FunctionValue((args) => method(this, argumentsOf(args)));
    };
    // Nothing but get() is ever asked of it, and a map of all methods would be made for every string.
    return { get } as unknown as ReadonlyMap<string, Value>;
  }
}

export function ownString(text: string): TracedString {
  return new TracedString(ownText(text));
}

export function foreignString(text: string, mark?: Mark): TracedString {
  return new TracedString(foreignText(text, mark));
}

/** A string that the library made itself could be anybody's: it is foreign. */
export function tracedString(value: Value): TracedString {
  return value instanceof TracedString ? value : foreignString(value.value as string);
}

type Method = (text: TracedText, args: Arguments) => Value;

/** Also filters, under the same names. */
export const methods: Readonly<Record<string, Method>> = Object.assign(Object.create(null), {
  upper: (text) => new TracedString(changedInPlace(text, text.text.toUpperCase())),
  lower: (text) => new TracedString(changedInPlace(text, text.text.toLowerCase())),
  title: (text) =>
    new TracedString(
      changedInPlace(
        text,
        text.text.replace(/\b\w/g, (first) => first.toUpperCase()),
      ),
    ),
  capitalize: (text) => new TracedString(changedInPlace(text, text.text.charAt(0).toUpperCase() + text.text.slice(1))),
  strip: (text, args) => strip(text, argument(args, 0, "chars"), true, true),
  lstrip: (text, args) => strip(text, argument(args, 0, "chars"), true, false),
  rstrip: (text, args) => strip(text, argument(args, 0, "chars"), false, true),
  startswith: ({ text }, args) => new BooleanValue(oneOf(args).some((part) => text.startsWith(part))),
  endswith: ({ text }, args) => new BooleanValue(oneOf(args).some((part) => text.endsWith(part))),
  split(text, args) {
    const separator = argument(args, 0, "sep");
    const cuts = countOf(argument(args, 1, "maxsplit"));
    const parts = separator ? splitAt(text, textOf(separator), cuts) : splitAtSpaces(text, cuts);
    return new ArrayValue(parts.map((part) => new TracedString(part)));
  },
  replace(text, args) {
    const [old, instead] = [textOf(args.places[0]), tracedString(stringOf(args.places[1]))];
    const most = countOf(argument(args, 2, "count"));
    const parts = old === "" ? [ownText(""), ...charactersOf(text), ownText("")] : splitAt(text, old, most);
    return new TracedString(join(parts, instead));
  },
} satisfies Record<string, Method>);

/** By whole characters, as Python counts. */
export function sliceString(text: TracedText, from?: number, to?: number, step = 1): TracedString {
  if (step === 0) throw new RangeError("a slice has no step of zero");
  const characters = charactersOf(text);
  const length = characters.length;
  const place = (index: number | undefined, ahead: number, back: number) => {
    if (index === undefined) return step > 0 ? ahead : back;
    const at = index < 0 ? index + length : index;
    return step > 0 ? Math.min(Math.max(at, 0), length) : Math.min(Math.max(at, -1), length - 1);
  };
  const [first, end] = [place(from, 0, length - 1), place(to, length, -1)];
  const taken: TracedText[] = [];
  for (let i = first; step > 0 ? i < end : i > end; i += step) taken.push(characters[i]!);
  return new TracedString(concat(taken));
}

/** Without characters (None), whitespace goes. */
function strip(text: TracedText, chars: Value | undefined, left: boolean, right: boolean): TracedString {
  const whole = text.text;
  if (!chars) {
    const from = left ? whole.length - whole.trimStart().length : 0;
    return new TracedString(slice(text, from, right ? Math.max(from, whole.trimEnd().length) : undefined));
  }
  const sought = new Set(textOf(chars));
  const characters = charactersOf(text);
  let [from, to] = [0, characters.length];
  while (left && from < to && sought.has(characters[from]!.text)) from++;
  while (right && to > from && sought.has(characters[to - 1]!.text)) to--;
  return new TracedString(concat(characters.slice(from, to)));
}

/** After `most` cuts the rest stays whole. */
function splitAt(text: TracedText, separator: string, most: number): TracedText[] {
  if (separator === "") throw new TypeError("split was asked for an empty separator");
  const parts: TracedText[] = [];
  let from = 0;
  for (let at = text.text.indexOf(separator); at >= 0 && parts.length < most; ) {
    parts.push(slice(text, from, at));
    from = at + separator.length;
    at = text.text.indexOf(separator, from);
  }
  return [...parts, slice(text, from)];
}

function splitAtSpaces(text: TracedText, most: number): TracedText[] {
  const words: TracedText[] = [];
  for (const { index, 0: word } of text.text.matchAll(/\S+/g)) {
    if (words.length >= most) return [...words, slice(text, index)];
    words.push(slice(text, index, index + word.length));
  }
  return words;
}

function stringOf(value: Value | undefined): Value {
  if (value instanceof StringValue) return value;
  throw new TypeError(`a string was wanted, and ${value?.type ?? "nothing"} given`);
}

function textOf(value: Value | undefined): string {
  return stringOf(value).value as string;
}

/** How often, at most; anything below zero is no limit. */
function countOf(value: Value | undefined): number {
  return value instanceof IntegerValue && value.value >= 0 ? value.value : Number.POSITIVE_INFINITY;
}

/** A string, or several in a tuple. */
function oneOf({ places: [sought] }: Arguments): string[] {
  return (sought instanceof ArrayValue ? sought.value : [sought]).map(textOf);
}
