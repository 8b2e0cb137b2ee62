/**
 * The clipped surrogate on one ratio per sequence:
 *   "mean"  log ratio = Σ_t logp / |y| − logDenominator   (GSPO, GEPO; aggregation "sequence-mean")
 *   "sum"   log ratio = Σ_t logp − logDenominator         (RLOO; aggregation "sequence-sum")
 * Under both the sequence weighs 1/B and every token receives slope·weight; "mean" with the aggregation "sequence-sum" weighs it |y|/B (LUSPO).
 * The advantage is the mean over the sequence's tokens.
 */
import { mean } from "../advantage/batch.ts";
import type { LossSequence } from "../algorithm.ts";
import { type Correction, sequenceCorrection } from "../correction.ts";
import { addMetric, maxMetric } from "../metrics.ts";
import { type Clip, surrogate } from "./surrogate.ts";
import type { Term } from "./terms.ts";

export interface SequenceRatio {
  over: "mean" | "sum";
  logDenominator(sequence: LossSequence): number;
}

export function sequenceSurrogate(ratio: SequenceRatio, clip?: Clip, correction?: Correction | false): Term {
  return (sequence, weight, gradients, metrics) => {
    const { logprobs, advantages } = sequence;
    const length = logprobs.length;
    const meanLogprob = mean(logprobs);
    const logp = ratio.over === "mean" ? meanLogprob : meanLogprob * length;
    const point = surrogate(logp - ratio.logDenominator(sequence), mean(advantages), clip);
    const w = weight * sequenceCorrection(sequence, correction, ratio.over === "mean" ? "mean" : "product", metrics);
    for (let t = 0; t < length; t++) gradients.logprobs[t]! += w * point.slope;
    addMetric(metrics, "ratio", point.ratio);
    maxMetric(metrics, "ratioMax", point.ratio);
    if (clip) addMetric(metrics, "clipFraction", point.clipped ? 1 : 0);
    return w * point.loss * (ratio.over === "mean" ? length : 1);
  };
}
