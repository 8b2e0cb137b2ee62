import type { BatchCounts, LossResult, LossSequence } from "../algorithm/algorithm.ts";
import { type KlEstimator, klPoint } from "../algorithm/kl.ts";
import { addMetric } from "../algorithm/metrics.ts";

export interface Regularisers {
  klCoefficient: number;
  klEstimator: KlEstimator;
  entropyBonus: number;
}

/** Adds the run's own terms to any algorithm's loss: + kl·KL(policy‖reference) − bonus·entropy, each a mean over the batch's tokens. */
export function regularise(
  result: LossResult,
  micro: readonly LossSequence[],
  counts: BatchCounts,
  { klCoefficient, klEstimator, entropyBonus }: Regularisers,
): LossResult {
  if (klCoefficient === 0 && entropyBonus === 0) return result;
  let loss = result.loss;
  const dEntropy =
    entropyBonus > 0
      ? micro.map((sequence, i) => Float32Array.from(result.dEntropy?.[i] ?? sequence.old.map(() => 0)))
      : result.dEntropy;
  const dLogprobs = result.dLogprobs.map((own) => Float32Array.from(own));
  micro.forEach(({ logprobs, ref, entropy }, i) => {
    for (let t = 0; t < logprobs.length; t++) {
      if (klCoefficient > 0 && ref) {
        const { value, slope } = klPoint(logprobs[t]!, ref[t]!, klEstimator);
        loss += (klCoefficient * value) / counts.tokens;
        dLogprobs[i]![t]! += (klCoefficient * slope) / counts.tokens;
        addMetric(result.metrics, "kl", value);
      }
      if (entropyBonus > 0 && entropy && dEntropy) {
        loss -= (entropyBonus * entropy[t]!) / counts.tokens;
        dEntropy[i]![t]! -= entropyBonus / counts.tokens;
      }
    }
  });
  return { ...result, loss, dLogprobs, ...(dEntropy && { dEntropy }) };
}
