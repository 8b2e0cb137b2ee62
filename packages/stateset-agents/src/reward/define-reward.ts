import { withTotal } from "../conversation/total.ts";
import type { RewardResult } from "../conversation/trajectory.ts";
import { counted } from "../counted.ts";
import { StatesetError } from "../error.ts";
import { type RewardContext, RewardFunction, type RewardInput, type RewardOptions } from "./reward-function.ts";
import { parseRewardOptions } from "./reward-options.ts";

/** What a reward written as a function may return. */
export type RewardValue = number | (Pick<RewardResult, "score"> & Partial<RewardResult>);

export type RewardFn = (conversation: RewardInput, context: RewardContext) => RewardValue | Promise<RewardValue>;

/**
 * A reward from a function; its name is the function's own where none is given.
 *
 * @example
 * const short = rewardFunction({ name: "short", weight: 0.5 }, ({ turns }) =>
 *   turns.every((turn) => turn.role !== "assistant" || turn.content.length < 80) ? 1 : 0,
 * );
 */
export function rewardFunction(fn: RewardFn): RewardFunction;
export function rewardFunction(options: RewardOptions, fn: RewardFn): RewardFunction;
export function rewardFunction(first: RewardOptions | RewardFn, second?: RewardFn): RewardFunction {
  const [options, fn] = typeof first === "function" ? [{}, first] : [first, second];
  if (typeof fn !== "function") {
    throw new StatesetError("INVALID_OPTION", "rewardFunction() was given no function.", {
      hint: 'Write rewardFunction({ name: "short" }, ({ turns }) => …).',
    });
  }
  return new FunctionReward(parseRewardOptions(options, "rewardFunction", fn.name || "reward", {}), fn);
}

class FunctionReward extends RewardFunction {
  readonly #fn: RewardFn;

  constructor(options: RewardOptions & { name: string }, fn: RewardFn) {
    super(options, { source: fn });
    this.#fn = fn;
  }

  override async compute(conversation: RewardInput, context: RewardContext = {}): Promise<RewardResult> {
    const value = await this.#fn(conversation, context);
    // A string or null is no score either, and is named as what it is.
    const result = typeof value === "object" && value !== null ? value : { score: value };
    return checkResult(this.name, conversation, result);
  }
}

/**
 * The result with its total as score. A score, a part or a turn that is not a finite number is a failure, not a zero; so is a turn that
 * the conversation does not have.
 */
export function checkResult(
  name: string,
  conversation: Pick<RewardInput, "turns">,
  result: Omit<RewardResult, "breakdown"> & Partial<RewardResult>,
): RewardResult {
  const check = (value: unknown, where: string) => {
    if (Number.isFinite(value)) return;
    throw new StatesetError(
      "REWARD_NOT_FINITE",
      `Reward "${name}" gave ${typeof value === "string" ? JSON.stringify(value) : String(value)}${where}, not a finite number.`,
    );
  };
  check(result.score, "");
  for (const [part, value] of Object.entries(result.breakdown ?? {})) check(value, ` for its part "${part}"`);
  for (const [turn, value] of Object.entries(result.turns ?? {})) {
    check(value, ` for turn ${turn}`);
    if (conversation.turns[Number(turn)] === undefined) throw noSuchTurn(name, turn, conversation.turns.length);
  }
  const given = withTotal({ ...result, breakdown: result.breakdown ?? {} });
  return result.breakdown ? given : { ...given, breakdown: { [name]: given.score } };
}

function noSuchTurn(name: string, turn: string, count: number): StatesetError {
  const message = `Reward "${name}" rewards turn ${turn} of a conversation that has ${counted(count, "turn")}.`;
  return new StatesetError("REWARD_FAILED", message, {
    hint: "`turns` goes by the index in the conversation's turns, from 0.",
    // A mistake in code, which no other conversation mends: a run stops at it.
    cause: new RangeError(message),
  });
}
