/**
 * Length-adaptive GAE: the policy's λ = 1 − 1/(α·l), l = sampled tokens of the sequence, clamped to [0, 1); value targets use λ = 1, that is
 * the discounted return itself. Long replies see their late reward, short ones keep low variance.
 * Source: Yue et al., "VAPO: Efficient and Reliable Reinforcement Learning for Advanced Reasoning Tasks", 2025 (α 0.05).
 */
import type { Advantages, Sequence } from "../algorithm.ts";
import { gae, valueAdvantages } from "./gae.ts";
import { discountedReturns, penalise } from "./reinforce-plus-plus.ts";
import { tokenRewards } from "./turn-credit.ts";

export function adaptiveLambda(length: number, alpha: number): number {
  return Math.min(1 - Number.EPSILON, Math.max(0, 1 - 1 / (alpha * length)));
}

export function lengthAdaptiveAdvantages(
  sequences: readonly Sequence[],
  options: { alpha?: number; gamma?: number; beta?: number; whiten?: boolean } = {},
): Advantages[] {
  const { alpha = 0.05, gamma = 1, beta = 0 } = options;
  return valueAdvantages(sequences, options.whiten ?? false, (sequence, values) => {
    const rewards = penalise(tokenRewards(sequence), sequence, beta);
    return {
      advantages: gae(rewards, values, gamma, adaptiveLambda(rewards.length, alpha)),
      returns: discountedReturns(rewards, gamma),
    };
  });
}
