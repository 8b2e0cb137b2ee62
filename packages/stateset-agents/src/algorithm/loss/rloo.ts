/**
 * RLOO: −s_i·A_i with the ratio of whole sequences s_i = exp(Σ_t (logp − old)), leave-one-out advantages, mean over sequences.
 * On policy s_i = 1 and the gradient is REINFORCE's. Unclipped unless epsilonLow or epsilonHigh is given.
 * Source: Ahmadian et al., "Back to Basics: Revisiting REINFORCE-Style Optimization for Learning from Human Feedback in LLMs", 2024.
 */
import { mean } from "../advantage/batch.ts";
import type { LossFunction } from "../algorithm.ts";
import { clippedSequenceLoss } from "./gspo.ts";

export const rlooLoss = (options: Parameters<typeof clippedSequenceLoss>[0]): LossFunction =>
  clippedSequenceLoss(options, { over: "sum", logDenominator: ({ old }) => mean(old) * old.length });
