/** Whitening over all tokens of the batch: (x − mean) / √(var + 1e-8), unbiased variance; equal values give exactly 0. */
import { constant, joined, mean, standardDeviation } from "./batch.ts";

export function whiten(perSequence: readonly Float64Array[]): Float64Array[] {
  const all = joined(perSequence);
  if (constant(all)) return perSequence.map((own) => new Float64Array(own.length));
  const center = mean(all);
  const scale = 1 / Math.sqrt(standardDeviation(all, center) ** 2 + 1e-8);
  return perSequence.map((own) => own.map((x) => (x - center) * scale));
}
