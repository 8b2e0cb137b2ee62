/**
 * LUSPO: GSPO's loss of a sequence times its length: 1/B Σ_i |y_i|·(−min(s_i·A_i, clip(s_i)·A_i)), s_i = exp(mean_t(logp − old)). GSPO gives every
 * token of a reply 1/|y| of its gradient, so that long replies are held back and replies grow short; here every token weighs the same.
 * Source: Liu et al., "Length-Unbiased Sequence Policy Optimization: Revealing and Controlling Response Length Variation in RLVR", 2026 (ε 2e-3 / 2.5e-3).
 * KL and entropy are sums over the tokens of a sequence too, so that they keep their weight beside it.
 */
import type { LossFunction } from "../algorithm.ts";
import type { ClippedLossOptions } from "./grpo.ts";
import { clippedSequenceLoss, meanRatio } from "./gspo.ts";

export const luspoLoss = (options: ClippedLossOptions): LossFunction =>
  clippedSequenceLoss(options, meanRatio, "sequence-sum");
