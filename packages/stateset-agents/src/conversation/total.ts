import type { RewardResult } from "./trajectory.ts";

/** What a conversation is worth in all: the score, and the rewards of single turns where they are not in it already. */
export function totalOf({ score, turns = {}, turnsInScore }: RewardResult): number {
  return turnsInScore ? score : Object.values(turns).reduce((sum, value) => sum + value, score);
}

/** The same reward with the total as its score and `turns` as shares of it. Asked twice, nothing changes. */
export function withTotal(reward: RewardResult): RewardResult {
  return reward.turns === undefined ? reward : { ...reward, score: totalOf(reward), turnsInScore: true };
}
