/**
 * REINFORCE++: r_t = −β·(old_t − ref_t) + turn rewards + [t last]·r; A = the discounted return Σ_k γ^k r_{t+k}, whitened over all tokens of
 * the batch. `baseline: "group"` subtracts the group's mean reward from r first.
 * Source: Hu et al., "REINFORCE++: A Simple and Efficient Approach for Aligning Large Language Models", 2025.
 */
import type { Advantages, Sequence } from "../algorithm.ts";
import { normaliseInGroups } from "./group.ts";
import { tokenRewards } from "./turn-credit.ts";
import { whiten } from "./whiten.ts";

export function reinforcePlusPlusAdvantages(
  sequences: readonly Sequence[],
  options: { beta?: number; gamma?: number; baseline?: "none" | "group" } = {},
): Advantages[] {
  const { beta = 0.01, gamma = 1, baseline = "none" } = options;
  let episode = sequences.map(({ reward }) => reward) as ArrayLike<number>;
  if (baseline === "group") episode = normaliseInGroups(sequences, [...(episode as number[])], "none");
  const returns = sequences.map((sequence, i) =>
    discountedReturns(penalise(tokenRewards(sequence, episode[i]!), sequence, beta), gamma),
  );
  return whiten(returns).map((own) => ({ advantages: Float32Array.from(own) }));
}

/** Subtracts β·k1 of the sampled tokens from their rewards, in place. */
export function penalise(rewards: Float64Array, { old, ref }: Sequence, beta: number): Float64Array {
  if (beta > 0 && ref) for (let t = 0; t < rewards.length; t++) rewards[t]! -= beta * (old[t]! - ref[t]!);
  return rewards;
}

/** `beyond` is what is still to come after the last token. */
export function discountedReturns(rewards: Float64Array, gamma: number, beyond = 0): Float64Array {
  const returns = new Float64Array(rewards.length);
  for (let t = rewards.length - 1, ahead = beyond; t >= 0; t--) {
    ahead = rewards[t]! + gamma * ahead;
    returns[t] = ahead;
  }
  return returns;
}
