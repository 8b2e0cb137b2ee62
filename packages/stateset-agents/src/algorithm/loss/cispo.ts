/**
 * CISPO: −sg(clip(ρ, 0, c))·A·logp, token mean. The weight is clipped instead of the update, so that every token keeps a gradient.
 * Source: MiniMax, "MiniMax-M1: Scaling Test-Time Compute Efficiently with Lightning Attention", 2025. Left out: the lower clip, which the paper
 * does not use either.
 */
import type { LossFunction, LossSequence, MetricSums } from "../algorithm.ts";
import { addMetric, maxMetric } from "../metrics.ts";
import type { CorrectedOptions } from "./grpo.ts";
import { likelihoodTerm } from "./likelihood.ts";
import { clampLogRatio } from "./surrogate.ts";
import { sumTerms, withPenalties } from "./terms.ts";

export interface CispoOptions extends CorrectedOptions {
  ratioCap: number;
}

export function cispoLoss(options: CispoOptions): LossFunction {
  const cap = options.ratioCap;
  const terms = withPenalties(
    options,
    likelihoodTerm(
      (sequence) => (t) => Math.min(ratioAt(sequence, t), cap) * sequence.advantages[t]!,
      options.correction,
    ),
    (sequence, _weight, _gradients, metrics) => reportRatios(sequence, cap, metrics),
  );
  return (micro, counts) => sumTerms(micro, counts, "token-mean", terms);
}

function ratioAt({ logprobs, frozen = logprobs, old }: LossSequence, t: number): number {
  return Math.exp(clampLogRatio(frozen[t]! - old[t]!));
}

/** Adds nothing to the loss. */
function reportRatios(sequence: LossSequence, cap: number, metrics: MetricSums): 0 {
  const { length } = sequence.logprobs;
  let sum = 0;
  let largest = 0;
  let clipped = 0;
  for (let t = 0; t < length; t++) {
    const ratio = ratioAt(sequence, t);
    sum += ratio;
    largest = Math.max(largest, ratio);
    if (ratio > cap) clipped++;
  }
  addMetric(metrics, "ratio", sum, length);
  maxMetric(metrics, "ratioMax", largest);
  addMetric(metrics, "clipFraction", clipped, length);
  return 0;
}
