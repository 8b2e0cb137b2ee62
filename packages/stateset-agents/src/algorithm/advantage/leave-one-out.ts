/**
 * Leave-one-out: A_i = r_i − (Σ_G r − r_i) / (G − 1), each member against the mean of the others. A group of one gives 0.
 * Source: Kool et al., "Buy 4 REINFORCE Samples, Get a Baseline for Free!", 2019; Ahmadian et al., "Back to Basics", 2024.
 */
import type { Advantages, Sequence } from "../algorithm.ts";
import { constant, membersByGroup, rewardsOf, spread } from "./batch.ts";

export function leaveOneOutAdvantages(sequences: readonly Sequence[], options: { beta?: number } = {}): Advantages[] {
  const rewards = rewardsOf(sequences, options.beta);
  const result = new Float64Array(rewards.length);
  for (const members of membersByGroup(sequences).values()) {
    const own = members.map((i) => rewards[i]!);
    if (constant(own)) continue;
    const sum = own.reduce((a, b) => a + b, 0);
    for (const i of members) result[i] = rewards[i]! - (sum - rewards[i]!) / (members.length - 1);
  }
  return spread(sequences, result);
}
