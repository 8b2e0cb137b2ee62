/**
 * Tokens of negative advantage learn nothing where the policy has moved too far from the one that sampled their sequence:
 *   A_t ← 0 where A_t < 0 and 1/|y| Σ_t (log π_sampler − log π_θ) > δ
 * What was likely when it was sampled and is not any more teaches little by being pushed further away, and can derail a run.
 * KL, entropy and value terms stay. Source: DeepSeek-AI, "DeepSeek-V3.2", 2025, §3.1 (off-policy sequence masking; δ is not given there, others use 0.05
 * to 0.5). The sampler's own log-probs count where they are known, since the difference between the two engines is part of how far off a sequence is.
 */
import type { LossSequence } from "./algorithm.ts";

function isFarOff({ logprobs, frozen = logprobs, old, sampled = old }: LossSequence, threshold: number): boolean {
  let sum = 0;
  for (let t = 0; t < sampled.length; t++) sum += sampled[t]! - frozen[t]!;
  return sum / sampled.length > threshold;
}

/** The sequence as the policy term may see it, or itself where nothing is masked. */
export function maskOffPolicy(sequence: LossSequence, threshold: number): LossSequence {
  const { advantages } = sequence;
  if (!advantages.some((a) => a < 0) || !isFarOff(sequence, threshold)) return sequence;
  return { ...sequence, advantages: advantages.map((a) => Math.max(a, 0)) };
}
