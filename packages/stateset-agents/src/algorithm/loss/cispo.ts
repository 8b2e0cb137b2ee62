/**
 * CISPO: −sg(clip(ρ, 0, c))·A·logp, token mean. The weight is clipped instead of the update, so that every token keeps a gradient.
 * Source: MiniMax, "MiniMax-M1: Scaling Test-Time Compute Efficiently with Lightning Attention", 2025. Left out: the lower clip, which the paper
 * does not use either.
 */
import type { LossFunction, LossSequence, MetricSums } from "../algorithm.ts";
import type { Correction } from "../correction.ts";
import type { KlEstimator } from "../kl.ts";
import { addMetric, maxMetric } from "../metrics.ts";
import { likelihoodTerm } from "./likelihood.ts";
import { clampLogRatio } from "./surrogate.ts";
import { entropyTerm, klTerm, sumTerms, type Term } from "./terms.ts";

export interface CispoOptions {
  ratioCap: number;
  beta?: number | undefined;
  klEstimator?: KlEstimator | undefined;
  entropyCoefficient?: number | undefined;
  correction?: Correction | false | undefined;
}

export function cispoLoss(options: CispoOptions): LossFunction {
  const cap = options.ratioCap;
  const terms: Term[] = [
    likelihoodTerm(
      (sequence) => (t) => Math.min(ratioAt(sequence, t), cap) * sequence.advantages[t]!,
      options.correction,
    ),
    (sequence, _weight, _gradients, metrics) => reportRatios(sequence, cap, metrics),
    klTerm(options.beta ?? 0, options.klEstimator),
    entropyTerm(options.entropyCoefficient ?? 0),
  ];
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
