/**
 * Dr. GRPO: the GRPO token loss, summed and divided by the constant B·L_max instead of each reply's own length, with advantages that are
 * not divided by the group's std. Removes GRPO's bias towards long wrong replies and towards easy or hard prompts.
 * Source: Liu et al., "Understanding R1-Zero-Like Training: A Critical Perspective", 2025.
 */
import type { LossFunction } from "../algorithm.ts";
import { type ClippedLossOptions, clippedTokenLoss } from "./grpo.ts";

export const drGrpoLoss = (options: ClippedLossOptions): LossFunction => clippedTokenLoss(options, "fixed-length");
