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
  const batchStd = scale === "batch" ? standardDeviation(values) : 0;
  for (const members of membersByGroup(sequences).values()) {
    const own = members.map((i) => values[i]!);
    if (constant(own)) continue;
    const center = mean(own);
    const std = scale === "group" ? standardDeviation(own, center) : batchStd;
    const divisor = scale === "none" ? 1 : std + SCALE_EPSILON;
    for (const i of members) result[i] = (values[i]! - center) / divisor;
  }
  return result;
}
