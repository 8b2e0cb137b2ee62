/**
 * GSPO: s_i = exp(Σ_t (logp − old) / |y_i|), clipped surrogate on s_i, mean over sequences. The reward is of the whole reply, so the ratio is too;
 * the length normalisation keeps it near 1, hence the small ε.
 * Source: Zheng et al., "Group Sequence Policy Optimization", 2025.
 */
import { mean } from "../advantage/batch.ts";
import type { LossFunction } from "../algorithm.ts";
import type { Aggregation } from "./aggregation.ts";
import type { ClippedLossOptions } from "./grpo.ts";
import { type SequenceRatio, sequenceSurrogate } from "./sequence-surrogate.ts";
import { sumTerms, withPenalties } from "./terms.ts";

export const gspoLoss = (options: ClippedLossOptions): LossFunction => clippedSequenceLoss(options, meanRatio);

/** s = exp(mean_t(logp − old)) */
export const meanRatio: SequenceRatio = { over: "mean", logDenominator: ({ old }) => mean(old) };

/** Every loss that is a sequence surrogate + KL + entropy. */
export function clippedSequenceLoss(
  options: Omit<ClippedLossOptions, "epsilonLow" | "epsilonHigh"> & {
    epsilonLow?: number | undefined;
    epsilonHigh?: number | undefined;
  },
  ratio: SequenceRatio,
  aggregation: Aggregation = ratio.over === "mean" ? "sequence-mean" : "sequence-sum",
): LossFunction {
  const { epsilonLow, epsilonHigh, dualClip } = options;
  const clip =
    epsilonLow === undefined && epsilonHigh === undefined
      ? undefined
      : { epsilonLow: epsilonLow ?? 1, epsilonHigh: epsilonHigh ?? Number.POSITIVE_INFINITY, dualClip };
  const terms = withPenalties(options, sequenceSurrogate(ratio, clip, options.correction));
  return (micro, counts) => sumTerms(micro, counts, aggregation, terms);
}
