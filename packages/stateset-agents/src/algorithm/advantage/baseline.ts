/**
 * REINFORCE's advantage: A_i = r_i − b with b = 0, the mean reward of the batch, or that of the group.
 * Source: Williams, "Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning", 1992.
 */
import type { Advantages, Sequence } from "../algorithm.ts";
import { rewardsOf, spread, standardDeviation } from "./batch.ts";
import { normalise, normaliseInGroups } from "./group.ts";

export type Baseline = "none" | "batch" | "group";

export function baselineAdvantages(
  sequences: readonly Sequence[],
  options: { baseline?: Baseline; beta?: number } = {},
): Advantages[] {
  const rewards = rewardsOf(sequences, options.beta);
  switch (options.baseline ?? "batch") {
    case "none":
      return spread(sequences, rewards);
    case "batch":
      return spread(sequences, normalise(rewards, "none", standardDeviation(rewards)));
    case "group":
      return spread(sequences, normaliseInGroups(sequences, rewards, "none"));
  }
}
