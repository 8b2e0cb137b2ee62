/**
 * Only uncertain tokens learn: of all tokens of a step, those whose entropy is at or above the (1 − share)-quantile keep their advantage, the others
 * get 0. What every loss divides by stays, and so do KL, entropy, value and likelihood terms.
 *   τ = quantile({H_t}, 1 − share), linear between order statistics;  A_t ← A_t·[H_t ≥ τ]
 * Source: Wang et al., "Beyond the 80/20 Rule: High-Entropy Minority Tokens Drive Effective Reinforcement Learning for LLM Reasoning", 2025 (share 0.2).
 * Where a loss has one ratio for the sequence (GSPO, GEPO, GMPO, LUSPO, RLOO), its advantage is the mean over the tokens: there the mask weighs a
 * sequence by the share of its tokens that are kept, as TRL's does.
 */
import { StatesetError } from "../error.ts";
import { joined } from "./advantage/batch.ts";
import type { Advantages, Sequence } from "./algorithm.ts";

export interface UncertainTokens {
  advantages: Advantages[];
  /** τ, in nats; undefined where no token learns. */
  threshold: number | undefined;
}

export function keepUncertainTokens(
  sequences: readonly Sequence[],
  advantages: readonly Advantages[],
  share: number,
): UncertainTokens {
  const entropies = sequences.map(({ oldEntropy }) => {
    if (oldEntropy) return oldEntropy;
    throw new StatesetError("INVALID_DATA", "Tokens are to be chosen by their entropy, and it is missing.", {
      hint: "Score the batch with entropies first.",
    });
  });
  const learnt = entropies.filter((_, i) => !sequences[i]!.masked);
  const all = joined(learnt);
  if (all.length === 0) return { threshold: undefined, advantages: [...advantages] };
  const threshold = quantile(all.sort(), 1 - share);
  return {
    threshold,
    advantages: advantages.map((own, i) => ({
      ...own,
      advantages: own.advantages.map((a, t) => (entropies[i]![t]! >= threshold ? a : 0)),
    })),
  };
}

/** Of sorted numbers. */
function quantile(sorted: Float64Array, q: number): number {
  const position = (sorted.length - 1) * q;
  const below = Math.floor(position);
  const low = sorted[below]!;
  return below === position ? low : low + (sorted[below + 1]! - low) * (position - below);
}
