/** A pair of runs in words. */
import type { CompareData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { outcomeOf, turned, verdictWords } from "../evaluation/words.ts";

type Pair = CompareData["pairs"][number];

export interface PairSaid {
  /** Is it; than it. */
  subject: string;
  than: string;
  words: string;
  outcome: ReturnType<typeof outcomeOf>;
}

export const unlikeWords = {
  rewards: "measured by different rewards",
  scenarios: "measured on different scenarios",
} as const satisfies Record<NonNullable<Pair["unlike"]>, string>;

/** Whichever is better stands first; `difference` is b − a. */
export function pairSaid({ a, b, unlike, difference, pValue }: Pair): PairSaid {
  if (unlike !== null) return { subject: a, than: b, words: unlikeWords[unlike], outcome: "unknown" };
  const worse = outcomeOf(difference) === "worse";
  const seen = worse ? turned(difference) : difference;
  return { subject: worse ? a : b, than: worse ? b : a, words: verdictWords(seen, pValue), outcome: outcomeOf(seen) };
}

const rank = { better: 0, worse: 0, same: 1, unknown: 2 } as const;

/** Those that tell something first, and of these the largest difference. */
export function orderedPairs(pairs: readonly Pair[]): Pair[] {
  return [...pairs].sort(
    (x, y) =>
      rank[outcomeOf(x.difference)] - rank[outcomeOf(y.difference)] ||
      Math.abs(y.difference.mean ?? 0) - Math.abs(x.difference.mean ?? 0),
  );
}
