/**
 * REINFORCE++: PPO's clipped token surrogate without a critic, token mean; the KL penalty is inside the (whitened, token-level) advantages.
 * Source: Hu et al., "REINFORCE++", 2025.
 */
import type { LossFunction } from "../algorithm.ts";
import { type ClippedLossOptions, clippedTokenLoss } from "./grpo.ts";

export const reinforcePlusPlusLoss = (options: ClippedLossOptions): LossFunction =>
  clippedTokenLoss(options, "token-mean");
