import type { RewardResult } from "../../conversation/trajectory.ts";
import { RewardFunction, type RewardInput, type RewardOptions } from "../reward-function.ts";
import { parseRewardOptions } from "../reward-options.ts";

/**
 * What the environment itself gave for the replies, added up: the whole reward of a run that has no other. Beside other rewards the
 * environment's own count only where this is one of the parts, so that nothing is counted twice.
 *
 * @example new CompositeReward([new EnvironmentReward({ weight: 0.8 }), new PolitenessReward({ weight: 0.2 })], { normalize: false });
 */
export class EnvironmentReward extends RewardFunction {
  constructor(options: RewardOptions = {}) {
    super(parseRewardOptions(options, "EnvironmentReward", "environment", {}));
  }

  override async compute({ turns }: RewardInput): Promise<RewardResult> {
    const given = turns.flatMap(({ reward }, i) => (reward === undefined ? [] : [[i, reward] as const]));
    const score = given.reduce((sum, [, reward]) => sum + reward, 0);
    return {
      score,
      breakdown: { [this.name]: score },
      ...(given.length > 0 && { turns: Object.fromEntries(given), turnsInScore: true }),
    };
  }
}
