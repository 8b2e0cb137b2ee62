/** Numbers within bounds, as decimals. The bounds are held digit by digit, so nothing depends on how a number is rounded. */
import { choice, impossible, nothing, optional, repeat, sequence } from "./grammar.ts";
import type { Edge, Grammar, Nfa, Place } from "./nfa.ts";

/** Digits before the point, at most; and behind it where nothing bounds the number. A double tells all of these apart. */
const digits = 15;
/** Behind the point of a bounded number: nine digits may stand before it then. More where no number of so few lies within the bounds. */
const fraction = 6;
const largest = 10n ** BigInt(digits) - 1n;

export interface Bounds {
  min?: number | undefined;
  max?: number | undefined;
  /** Whether the bound itself is out. */
  aboveMin?: boolean;
  belowMax?: boolean;
}

const digit: Grammar = (nfa, to) => nfa.byte(48, 57, to);
const positive: Grammar = (nfa, to) => nfa.byte(49, 57, to);
const whole = choice("0", sequence(positive, repeat(digit, 0, digits - 1)));
const exponent = sequence(choice("e", "E"), optional(choice("+", "-")), repeat(digit, 1, 2));
const anyNumber = sequence(optional("-"), whole, optional(sequence(".", repeat(digit, 1, digits))), optional(exponent));

export function integerGrammar(bounds: Bounds): Grammar {
  const [low, high] = limits(bounds, 0);
  return integers(low ?? -largest, high ?? largest);
}

export function numberGrammar(bounds: Bounds): Grammar {
  if (bounds.min === undefined && bounds.max === undefined) return anyNumber;
  for (let places = fraction; places <= digits; places++) {
    const [low, high] = limits(bounds, places);
    const [from, to] = [larger(low ?? -largest, -largest), smaller(high ?? largest, largest)];
    if (from <= to) return signed(from, to, decimals(places));
  }
  // Further out whole numbers are left.
  return integerGrammar(bounds);
}

/** Whether no number lies within the bounds, however many digits it has. */
export function isEmpty(
  { min = -Infinity, max = Infinity, aboveMin, belowMax }: Bounds,
  type: "integer" | "number",
): boolean {
  if (type === "number") return min > max || (min === max && (aboveMin === true || belowMax === true));
  const least = aboveMin ? Math.floor(min) + 1 : Math.ceil(min);
  const most = belowMax ? Math.ceil(max) - 1 : Math.floor(max);
  return least > most;
}

/** The bounds as whole numbers of 10^-places, on their inner side. */
function limits({ min, max, aboveMin, belowMax }: Bounds, places: number): [bigint | undefined, bigint | undefined] {
  const low = min === undefined ? undefined : scaled(min, places);
  const high = max === undefined ? undefined : scaled(max, places);
  return [
    low && (low.exact ? (aboveMin ? low.floor + 1n : low.floor) : low.floor + 1n),
    high && (high.exact && belowMax ? high.floor - 1n : high.floor),
  ];
}

/** A number as it is written, times 10^places. */
function scaled(value: number, places: number): { floor: bigint; exact: boolean } {
  const [, sign, int, part = "", power = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(value))!;
  const shift = Number(power) - part.length + places;
  const all = BigInt(`${sign}${int}${part}`);
  if (shift >= 0) return { floor: all * 10n ** BigInt(shift), exact: true };
  const by = 10n ** BigInt(-shift);
  const exact = all % by === 0n;
  return { floor: all / by - (all < 0n && !exact ? 1n : 0n), exact };
}

const larger = (a: bigint, b: bigint) => (a > b ? a : b);
const smaller = (a: bigint, b: bigint) => (a < b ? a : b);

function integers(low: bigint, high: bigint): Grammar {
  return signed(larger(low, -largest), smaller(high, largest), naturals);
}

/** `between` writes those that are not negative. */
function signed(low: bigint, high: bigint, between: (low: bigint, high: bigint) => Grammar): Grammar {
  if (low > high) return impossible;
  return choice(
    high >= 0n ? between(larger(low, 0n), high) : impossible,
    low < 0n ? sequence("-", between(larger(-high, 1n), -low)) : impossible,
  );
}

/** Whole numbers from–to, without zeros before them. */
function naturals(low: bigint, high: bigint): Grammar {
  const parts: Grammar[] = [];
  for (let length = String(low).length; length <= String(high).length; length++) {
    const least = length === 1 ? 0n : 10n ** BigInt(length - 1);
    const from = larger(low, least);
    const to = smaller(high, 10n ** BigInt(length) - 1n);
    parts.push(sameLength(String(from), String(to)));
  }
  return choice(...parts);
}

/** In whole numbers of 10^-places. */
function decimals(places: number): (low: bigint, high: bigint) => Grammar {
  const one = 10n ** BigInt(places);
  const part = (value: bigint) => String(value % one).padStart(places, "0");
  const [first, last] = ["0".repeat(places), "9".repeat(places)];
  return (low, high) => {
    const [from, to] = [low / one, high / one];
    if (from === to) return sequence(String(from), fractions(part(low), part(high)));
    return choice(
      sequence(String(from), fractions(part(low), last)),
      to - from > 1n ? sequence(naturals(from + 1n, to - 1n), fractions(first, last)) : impossible,
      sequence(String(to), fractions(first, part(high))),
    );
  };
}

/** Digits of one length from–to. */
function sameLength(low: string, high: string): Grammar {
  return (nfa, to) => digitsBetween(nfa, to, low, high, () => false);
}

/** What stands behind the whole number: nothing, or a point and digits, worth low–high. Zeros at the end may be left out. */
function fractions(low: string, high: string): Grammar {
  const mayStop = (at: number, tight: boolean) => !tight || /^0*$/.test(low.slice(at));
  const some: Grammar = (nfa, to) =>
    nfa.byte(
      46,
      46,
      digitsBetween(nfa, to, low, high, (at, tight) => at > 0 && mayStop(at, tight)),
    );
  return choice(some, mayStop(0, true) ? nothing : impossible);
}

/** `mayStop`: whether it may be over before digit `at`, where all before are those of the lower bound, or not. */
function digitsBetween(
  nfa: Nfa,
  to: Place,
  low: string,
  high: string,
  mayStop: (at: number, tightLow: boolean) => boolean,
): Place {
  const known = new Map<string, Place>();
  const from = (at: number, tightLow: boolean, tightHigh: boolean): Place => {
    if (at === low.length) return to;
    const key = `${at}${tightLow}${tightHigh}`;
    const there = known.get(key);
    if (there !== undefined) return there;
    const edges: Edge[] = [];
    for (let d = tightLow ? Number(low[at]) : 0; d <= (tightHigh ? Number(high[at]) : 9); d++) {
      const next = from(at + 1, tightLow && d === Number(low[at]), tightHigh && d === Number(high[at]));
      edges.push({ low: 48 + d, high: 48 + d, to: next });
    }
    const place = nfa.branch(edges);
    const made = mayStop(at, tightLow) ? nfa.either(place, to) : place;
    known.set(key, made);
    return made;
  };
  return from(0, true, true);
}
