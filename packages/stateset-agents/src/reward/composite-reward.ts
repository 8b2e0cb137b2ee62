import { z } from "zod";
import type { PartFailure } from "../conversation/part-failures.ts";
import type { RewardResult } from "../conversation/trajectory.ts";
import { messageOf, StatesetError } from "../error.ts";
import { checkResult } from "./define-reward.ts";
import {
  type PartNote,
  type RewardContext,
  RewardFunction,
  type RewardInput,
  type RewardOptions,
} from "./reward-function.ts";
import { parseRewardOptions } from "./reward-options.ts";

/**
 * What a part that throws does to the whole. fail: the whole fails, and training leaves that conversation out and counts it.
 * skip: the other parts share its weight. {score}: it counts as that score. In each case the failure is counted and reported by the
 * part's name, and is in no mean of that part.
 */
export type OnFailure = "fail" | "skip" | { score: number };

export const onFailureSchema = z
  .union([z.enum(["fail", "skip"]), z.strictObject({ score: z.number() })], '"fail", "skip" or {score} was expected')
  .default("fail");

export interface CompositeOptions extends RewardOptions {
  /** Divide by the sum of the weights, so that scores within 0 and 1 stay there. Default true. */
  normalize?: boolean;
  /** Default "fail". */
  onFailure?: OnFailure;
}

/**
 * The weighted sum of other rewards. The breakdown has one entry per part, by name, and `part.detail` for details of a part.
 *
 * @example
 * new CompositeReward([new HelpfulnessReward({ weight: 0.7 }), new SafetyReward({ weight: 0.3 })]);
 */
export class CompositeReward extends RewardFunction {
  readonly parts: readonly { name: string; reward: RewardFunction }[];
  readonly #normalize: boolean;
  readonly #onFailure: OnFailure;

  constructor(rewards: readonly RewardFunction[], options: CompositeOptions = {}) {
    const { normalize, onFailure, ...rest } = parseRewardOptions(options, "CompositeReward", "composite", {
      normalize: z.boolean().default(true),
      onFailure: onFailureSchema,
    });
    super(rest, { normalize, onFailure });
    this.parts = distinctNames(rewards);
    this.#normalize = normalize;
    this.#onFailure = onFailure;
    if (rewards.length === 0) {
      throw new StatesetError("INVALID_OPTION", `Reward "${this.name}" has no parts.`, {
        hint: "Give at least one reward.",
      });
    }
    if (this.#normalize && totalWeight(rewards) === 0) {
      throw new StatesetError("INVALID_OPTION", `The weights of reward "${this.name}" add up to 0.`);
    }
  }

  override describe(): Record<string, unknown> {
    return { ...super.describe(), parts: this.parts.map(({ name, reward }) => ({ ...reward.describe(), name })) };
  }

  override async compute(conversation: RewardInput, context: RewardContext = {}): Promise<RewardResult> {
    const { results, failures, tell } = await computeParts(this.parts, conversation, context, this.#onFailure);
    const divisor = this.#normalize ? totalWeight(results.map((part) => part.reward)) : 1;
    const shares = results.map(({ reward, result }) => (reward.weight * result.score) / divisor);
    const score = shares.reduce((sum, share) => sum + share, 0);
    tell(shares);
    return checkResult(this.name, conversation, {
      score,
      breakdown: joinBreakdowns(results),
      ...joinTurns(results.map(({ reward, result }) => ({ result, factor: reward.weight / divisor }))),
      metadata: joinMetadata(results, failures),
    });
  }
}

export interface PartResult {
  name: string;
  reward: RewardFunction;
  result: RewardResult;
}

/** All parts at once, each failure treated as asked. */
export async function computeParts(
  parts: readonly { name: string; reward: RewardFunction }[],
  conversation: RewardInput,
  context: RewardContext,
  onFailure: OnFailure,
): Promise<{ results: PartResult[]; failures: PartFailure[]; tell: (shares?: readonly number[]) => void }> {
  const failures: PartFailure[] = [];
  const inner = new Map<string, PartNote[]>();
  const settled = await Promise.all(
    parts.map(async ({ name, reward }): Promise<PartResult | undefined> => {
      const notes: PartNote[] = [];
      inner.set(name, notes);
      const own = context.onPart ? { ...context, onPart: (note: PartNote) => void notes.push(note) } : context;
      try {
        return { name, reward, result: checkResult(name, conversation, await reward.compute(conversation, own)) };
      } catch (error) {
        if (onFailure === "fail") {
          const message = `The part "${name}" of the reward failed: ${messageOf(error)}`;
          throw new StatesetError("REWARD_FAILED", message, { cause: error });
        }
        failures.push({ name, message: messageOf(error) });
        if (onFailure === "skip") return undefined;
        return { name, reward, result: { score: onFailure.score, breakdown: {} } };
      }
    }),
  );
  const results = settled.filter((part) => part !== undefined);
  if (results.length === 0) {
    throw new StatesetError("REWARD_FAILED", `Every part of the reward failed; the first: ${failures[0]?.message}`);
  }
  /** `shares` are of the results, in their order. */
  const tell = (shares?: readonly number[]) => {
    for (const { name } of parts) {
      const at = results.findIndex((part) => part.name === name);
      const failure = failures.find((one) => one.name === name)?.message;
      context.onPart?.({
        name,
        ...(at >= 0 && { result: results[at]!.result, ...(shares && { share: shares[at]! }) }),
        ...(failure !== undefined && { failure }),
        parts: inner.get(name)!,
      });
    }
  };
  return { results, failures, tell };
}

/** One name per part: a second "helpfulness" becomes "helpfulness 2", so that no score hides another. */
export function distinctNames(rewards: readonly RewardFunction[]): { name: string; reward: RewardFunction }[] {
  const seen = new Map<string, number>();
  return rewards.map((reward) => {
    const count = (seen.get(reward.name) ?? 0) + 1;
    seen.set(reward.name, count);
    return { name: count === 1 ? reward.name : `${reward.name} ${count}`, reward };
  });
}

export function joinBreakdowns(results: readonly PartResult[]): Record<string, number> {
  const breakdown: Record<string, number> = {};
  for (const { name, reward, result } of results) {
    breakdown[name] = result.score;
    for (const [key, value] of Object.entries(result.breakdown)) {
      if (key !== reward.name) breakdown[`${name}.${key}`] = value;
    }
  }
  return breakdown;
}

export function joinMetadata(
  results: readonly PartResult[],
  failures: readonly PartFailure[],
): Record<string, unknown> {
  const parts = results.filter(({ result }) => result.metadata).map(({ name, result }) => [name, result.metadata]);
  return { ...(parts.length > 0 && { parts: Object.fromEntries(parts) }), ...(failures.length > 0 && { failures }) };
}

/** Rewards of single turns, each part's times its factor: shares of the whole, since each part's are of its own score. */
export function joinTurns(
  parts: readonly { result: RewardResult; factor: number }[],
): Pick<RewardResult, "turns" | "turnsInScore"> {
  const turns: Record<number, number> = {};
  for (const { result, factor } of parts) {
    for (const [turn, value] of Object.entries(result.turns ?? {})) {
      turns[Number(turn)] = (turns[Number(turn)] ?? 0) + factor * value;
    }
  }
  return Object.keys(turns).length > 0 ? { turns, turnsInScore: true } : {};
}

function totalWeight(rewards: readonly RewardFunction[]): number {
  return rewards.reduce((sum, reward) => sum + Math.abs(reward.weight), 0);
}
