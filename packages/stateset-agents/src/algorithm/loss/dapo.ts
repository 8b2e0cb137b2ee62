/**
 * DAPO: the GRPO token loss with a decoupled clip (ε_hi > ε_lo, so that rare tokens can grow), averaged over all tokens of the batch.
 * Its other two parts are not in the loss: dynamic sampling (keepGroup) and overlong shaping (shapeReward, ../overlong.ts).
 * Source: Yu et al., "DAPO: An Open-Source LLM Reinforcement Learning System at Scale", 2025.
 */
import type { AdvantageFunction, LossFunction, Sequence } from "../algorithm.ts";
import { type ClippedLossOptions, clippedTokenLoss } from "./grpo.ts";

export const dapoLoss = (options: ClippedLossOptions): LossFunction => clippedTokenLoss(options, "token-mean");

/**
 * Dynamic sampling: a group teaches only when its advantages are not all 0. With one advantage for the episode that is when its rewards
 * differ (pass/fail: 0 < passes < G); with credit by turn or by part of the reward, groups of equal rewards may teach too.
 */
export function teaches(advantages: AdvantageFunction): (group: readonly Sequence[]) => boolean {
  return (group) => advantages(group).some((own) => own.advantages.some((a) => a !== 0));
}
