/**
 * Length-adaptive GAE: the policy's λ = 1 − 1/(α·l), l = sampled tokens of the sequence, at least `floor` and below 1; value targets use
 * λ = 1, that is the discounted return itself. So a reward reaches back α·l tokens, or 1/(1 − floor) where that is more: long replies see their
 * late reward at low variance. The floor is not in the paper, which writes replies of thousands of tokens: α·l is 1 at twenty tokens, where λ would
 * be 0 and only the last token would see the reward. At 0.999 it gives way to the length from 20,000 tokens on; 0.99 was worse on fifty tokens, since
 * the value head starts at 0 and whitening makes the distance from the end an advantage (gae.ts).
 * Source: Yue et al., "VAPO: Efficient and Reliable Reinforcement Learning for Advanced Reasoning Tasks", 2025 (α 0.05).
 */
import type { Advantages, Sequence } from "../algorithm.ts";
import { gae, valueAdvantages, valueBeyond } from "./gae.ts";
import { discountedReturns, penalise } from "./reinforce-plus-plus.ts";
import { tokenRewards } from "./turn-credit.ts";

export function adaptiveLambda(length: number, alpha: number, floor: number): number {
  return Math.min(1 - Number.EPSILON, Math.max(floor, 1 - 1 / (alpha * length)));
}

export function lengthAdaptiveAdvantages(
  sequences: readonly Sequence[],
  options: {
    alpha?: number;
    floor?: number;
    gamma?: number;
    beta?: number;
    whiten?: boolean;
    bootstrap?: boolean | undefined;
  } = {},
): Advantages[] {
  const { alpha = 0.05, floor = 0.999, gamma = 1, beta = 0 } = options;
  return valueAdvantages(sequences, options.whiten ?? false, (sequence, values) => {
    const rewards = penalise(tokenRewards(sequence), sequence, beta);
    const beyond = valueBeyond(sequence, options.bootstrap);
    return {
      advantages: gae(rewards, values, gamma, adaptiveLambda(rewards.length, alpha, floor), beyond),
      returns: discountedReturns(rewards, gamma, beyond),
    };
  });
}
