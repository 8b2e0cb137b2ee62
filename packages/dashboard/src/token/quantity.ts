/** What tokens can be coloured by, and how far the colours reach. */
import { buckets, className, middle, type Ramp } from "./colours.ts";
import { float32 } from "./float32.ts";
import { numberOf, type Tokens } from "./tokens.ts";

export type QuantityName = "logprob" | "advantage" | "ratio" | "entropy" | "difference" | "value";

export interface Quantity {
  name: QuantityName;
  label: string;
  /** What its colours say, in one line. */
  meaning: string;
  ramp: Ramp;
  /** Of one token; NaN where it is not known. */
  of(tokens: Tokens, token: number): number;
  /** Where on the scale a value stands, and back; left out: the value itself. Signed quantities have their centre at 0 of the scale. */
  toScale?(value: number): number;
  fromScale?(place: number): number;
  /** An end of the scale that is where it is, whatever the values are. */
  fixed?: { low?: number; high?: number };
  /** The end without colour is the large one. */
  inverted?: true;
  /** A scale of a sign reaches at least as far: what is smaller is rounding. */
  least?: number;
}

export const quantities: readonly Quantity[] = [
  {
    name: "advantage",
    label: "Advantage",
    meaning: "Orange is made more likely, blue less likely.",
    ramp: "signed",
    of: (tokens, i) => numberOf(tokens, "advantage", i),
  },
  {
    name: "ratio",
    label: "Ratio",
    meaning: "Policy ÷ the one that sampled, by the last pass of the update. Orange became likelier, blue less likely.",
    ramp: "signed",
    of: (tokens, i) => numberOf(tokens, "ratio", i),
    toScale: Math.log,
    fromScale: Math.exp,
    least: 1e-3,
  },
  {
    name: "logprob",
    label: "Log-prob",
    meaning: "How likely the policy held the token. The deeper the colour, the less likely.",
    ramp: "plain",
    of: (tokens, i) => numberOf(tokens, "logprobs", i),
    fixed: { high: 0 },
    inverted: true,
  },
  {
    name: "entropy",
    label: "Entropy",
    meaning: "How undecided the policy was, in nats. The deeper the colour, the more undecided.",
    ramp: "plain",
    of: (tokens, i) => numberOf(tokens, "entropy", i),
    fixed: { low: 0 },
  },
  {
    name: "difference",
    label: "Reference difference",
    meaning:
      "Log-prob − log-prob under the reference. Orange is likelier than the reference holds it, blue less likely.",
    ramp: "signed",
    of: differenceOf,
    least: 1e-3,
  },
  {
    name: "value",
    label: "Value",
    meaning: "The reward that the value function expected before the token. The deeper the colour, the more.",
    ramp: "plain",
    of: (tokens, i) => numberOf(tokens, "value", i),
  },
];

/** As a float32, as all that stands in the file. */
export function differenceOf(tokens: Tokens, token: number): number {
  return Math.fround(numberOf(tokens, "logprobs", token) - numberOf(tokens, "reference", token));
}

/** Those for which at least one token has a number. */
export function knownQuantities(tokens: Tokens): Quantity[] {
  return quantities.filter(({ of }) => {
    for (let i = 0; i < tokens.count; i++) if (!Number.isNaN(of(tokens, i))) return true;
    return false;
  });
}

/** What is looked at first: what the gradient did, or else how far the policy went from where it began. */
export function firstOf(known: readonly Quantity[]): Quantity | undefined {
  const wanted: readonly QuantityName[] = ["advantage", "difference"];
  return wanted.flatMap((name) => known.find((one) => one.name === name) ?? [])[0] ?? known[0];
}

/** How far the colours reach: places on the scale, not values. */
export interface Reach {
  low: number;
  high: number;
  /** Tokens it rests on. */
  count: number;
}

/** From the 2nd to the 98th of a hundred tokens that learn: a few that stand far out do not wash out the rest. */
export function reachOf({ of, ramp, toScale = same, fixed = {}, least = 0 }: Quantity, all: readonly Tokens[]): Reach {
  const places = all.flatMap((tokens) => {
    const found: number[] = [];
    for (let i = 0; i < tokens.count; i++) {
      const place = toScale(of(tokens, i));
      if (Number.isFinite(place) && tokens.learns[i] === 1) found.push(place);
    }
    return found;
  });
  const count = places.length;
  if (ramp === "signed") {
    const sorted = Float64Array.from(places, Math.abs).sort();
    const high = Math.max(least, quantile(sorted, 0.98)) || 1;
    return { low: -high, high, count };
  }
  const sorted = Float64Array.from(places).sort();
  let { low = quantile(sorted, 0.02), high = quantile(sorted, 0.98) } = fixed;
  if (!(high > low)) [low, high] = fixed.high === undefined ? [low, low + 1] : [high - 1, high];
  return { low, high, count };
}

function quantile(sorted: Float64Array, share: number): number {
  if (sorted.length === 0) return 0;
  return sorted[Math.round(share * (sorted.length - 1))]!;
}

/** Which of the colours a value has; undefined where it is not known. */
export function bucketOf(
  { toScale = same, inverted, ramp }: Quantity,
  { low, high }: Reach,
  value: number,
): number | undefined {
  const place = toScale(value);
  if (Number.isNaN(place)) return undefined;
  const along = Math.min(1, Math.max(0, (place - low) / (high - low)));
  const bucket = Math.round((inverted ? 1 - along : along) * (buckets - 1));
  // The colour of nothing is for nothing alone: what has a sign shows it.
  if (ramp === "signed" && bucket === middle && Math.abs(place) > (high - low) / 1000)
    return place > 0 ? middle + 1 : middle - 1;
  return bucket;
}

/** The class of a token's colour: "still" for those that do not learn or have no number. */
export function colourClass(quantity: Quantity, reach: Reach, tokens: Tokens, token: number): string {
  if (tokens.learns[token] !== 1) return "still";
  const bucket = bucketOf(quantity, reach, quantity.of(tokens, token));
  return bucket === undefined ? "still" : className(quantity.ramp, bucket);
}

/** Numbers below a legend: its ends and its centre, where it has one. */
export function ticksOf({ fromScale = same, ramp }: Quantity, { low, high }: Reach): string[] {
  const places = ramp === "signed" ? [low, 0, high] : [low, (low + high) / 2, high];
  return places.map((place) => float32(Number(fromScale(place).toPrecision(3))).replace(/^-/, "−"));
}

const same = (value: number) => value;
