/** What a paired test says, in words. */
import type { EstimateData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { estimate, number, plural, signed } from "../parts/number.ts";

/** Of fewer pairs no test tells anything at 95%: the least p-value of n pairs is 2^(1−n). */
const fewestPairs = 6;

export type Outcome = "better" | "worse" | "same" | "unknown";

/** The interval of the paired test holds 0 exactly when chance explains the difference, and is not there when there are too few pairs. */
export function outcomeOf({ mean, low, high }: EstimateData): Outcome {
  if (mean === null || low === undefined || high === undefined) return "unknown";
  return low > 0 ? "better" : high < 0 ? "worse" : "same";
}

/** `difference` is after − before (or b − a), so that above 0 is better. */
export function verdictWords(difference: EstimateData, pValue: number | null): string {
  const { mean, count } = difference;
  if (mean === null || count === 0) return "no scenario was measured both times";
  const over = plural(count, "scenario");
  switch (outcomeOf(difference)) {
    case "better":
      return `better by ${estimate(difference)}${chance(pValue)}, ${over}`;
    case "worse":
      return `worse by ${estimate(turned(difference))}${chance(pValue)}, ${over}`;
    case "same":
      return `chance explains the difference: ${signed(mean, 3)} [${number(difference.low, 3)}, ${number(difference.high, 3)}]${chance(pValue)}, ${over}`;
    case "unknown":
      return count < fewestPairs
        ? `too few to tell: ${over} (it takes ${fewestPairs}); the mean moved by ${signed(mean, 3)}`
        : `nothing tells how far off it may be: ${signed(mean, 3)}, ${over}`;
  }
}

function chance(pValue: number | null): string {
  if (pValue === null) return "";
  return pValue < 0.001 ? ", p < 0.001" : `, p = ${Number(pValue.toPrecision(2))}`;
}

/** The same difference seen from the other side. */
export function turned({ mean, low, high, count }: EstimateData): EstimateData {
  const flipped = { mean: mean === null ? null : -mean, count };
  return low === undefined || high === undefined ? flipped : { ...flipped, low: -high, high: -low };
}
