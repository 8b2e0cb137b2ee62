import type { RewardResult } from "../conversation/trajectory.ts";
import { StatesetError } from "../error.ts";
import { type RewardContext, RewardFunction, type RewardInput, type RewardOptions } from "./reward-function.ts";
import { parseRewardOptions } from "./reward-options.ts";

/** What a reward written as a function may return. */
export type RewardValue = number | (Pick<RewardResult, "score"> & Partial<RewardResult>);

export type RewardFn = (conversation: RewardInput, context: RewardContext) => RewardValue | Promise<RewardValue>;

/**
 * A reward from a function.
 *
 * @example
 * const short = rewardFunction({ name: "short", weight: 0.5 }, ({ turns }) =>
 *   turns.every((turn) => turn.role !== "assistant" || turn.content.length < 80) ? 1 : 0,
 * );
 */
export function rewardFunction(options: RewardOptions, fn: RewardFn): RewardFunction {
  return new FunctionReward(parseRewardOptions(options, "rewardFunction", fn.name || "reward", {}), fn);
}

class FunctionReward extends RewardFunction {
  readonly #fn: RewardFn;

  constructor(options: RewardOptions & { name: string }, fn: RewardFn) {
    super(options);
    this.#fn = fn;
  }

  override async compute(conversation: RewardInput, context: RewardContext = {}): Promise<RewardResult> {
    const value = await this.#fn(conversation, context);
    const result = typeof value === "number" ? { score: value } : value;
    return checkResult(this.name, { ...result, breakdown: result?.breakdown ?? { [this.name]: result?.score } });
  }
}

/** A result whose score is not a finite number is a failure, not a zero. */
export function checkResult(name: string, result: RewardResult): RewardResult {
  if (!Number.isFinite(result.score)) {
    throw new StatesetError("REWARD_FAILED", `Reward "${name}" gave ${String(result.score)}, not a finite number.`);
  }
  return result;
}
