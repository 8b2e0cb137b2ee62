/**
 * Group-relative advantages: A_i = (r_i − mean_G) / (std_G + ε), unbiased std, ε = 1e-4; a constant group gives exactly 0.
 *   scale "group"  as above          Shao et al., "DeepSeekMath", 2024
 *   scale "batch"  std of all rewards of the batch     Hu et al., "REINFORCE++", 2025 (global normalisation)
 *   scale "none"   r_i − mean_G      Liu et al., "Understanding R1-Zero-Like Training" (Dr. GRPO), 2025
 */
import type { Advantages, Sequence } from "../algorithm.ts";
import { constant, mean, membersByGroup, rewardsOf, spread, standardDeviation } from "./batch.ts";

export type Scale = "group" | "batch" | "none";

export const SCALE_EPSILON = 1e-4;

export function groupAdvantages(
  sequences: readonly Sequence[],
  options: { scale?: Scale; beta?: number } = {},
): Advantages[] {
  const rewards = rewardsOf(sequences, options.beta);
  return spread(sequences, normaliseInGroups(sequences, rewards, options.scale));
}

/** The same for any number per sequence. */
export function normaliseInGroups(
  sequences: readonly Sequence[],
  values: readonly number[],
  scale: Scale = "group",
): Float64Array {
  const result = new Float64Array(values.length);
  const batchStd = standardDeviation(values);
  for (const members of membersByGroup(sequences).values()) {
    const normalised = normalise(
      members.map((i) => values[i]!),
      scale,
      batchStd,
    );
    for (const [n, i] of members.entries()) result[i] = normalised[n]!;
  }
  return result;
}

/** Values that are compared with each other, centred and scaled. */
export function normalise(values: readonly number[], scale: Scale, batchStd: number): number[] {
  if (constant(values)) return values.map(() => 0);
  const center = mean(values);
  const std = scale === "group" ? standardDeviation(values, center) : batchStd;
  const divisor = scale === "none" ? 1 : std + SCALE_EPSILON;
  return values.map((value) => (value - center) / divisor);
}
