/**
 * BNPO: the GRPO token loss, averaged over the tokens of the local batch: L = 1/G Σ_groups (Σ / Σm of the group).
 * Source: TRL's `loss_type="bnpo"`, where the local batch is one device's micro-batch. Here it is the group: the same when a micro-batch holds
 * one group, and independent of how sequences are packed. Left out: the Beta normalisation of the paper that shares the name.
 */
import type { LossFunction } from "../algorithm.ts";
import { type ClippedLossOptions, clippedTokenLoss } from "./grpo.ts";

export const bnpoLoss = (options: ClippedLossOptions): LossFunction => clippedTokenLoss(options, "group-mean");
