import { createHash } from "node:crypto";
import { z } from "zod";
import { canonicalJson } from "../canonical-json.ts";
import type { RewardResult } from "../conversation/trajectory.ts";
import { StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";
import { type RewardContext, RewardFunction, type RewardInput } from "./reward-function.ts";

export interface CachedRewardOptions {
  /** Conversations whose scores are kept; those asked for least lately are forgotten. Default 10,000. */
  maxEntries?: number;
}

const schema = z.strictObject({ maxEntries: z.int().min(1).default(10_000) });

/**
 * The same reward, which scores the same conversation once: same turns, scenario, end and notes of the environment, same score. For rewards that cost
 * something (a judge, a program) where conversations come up again. What fails is not kept. A reward that compares a conversation with its group
 * has no score of its own to keep, and is refused when it asks for the group.
 *
 * @example
 * const reward = cachedReward(judgeReward({ judge, rubric: "Was the refund right?", mode: "absolute" }));
 */
export function cachedReward(reward: RewardFunction, options: CachedRewardOptions = {}): CachedReward {
  return new CachedReward(reward, options);
}

export class CachedReward extends RewardFunction {
  readonly reward: RewardFunction;
  readonly #maxEntries: number;
  /** Those asked for least lately first. */
  readonly #known = new Map<string, Promise<RewardResult>>();
  #hits = 0;
  #computed = 0;

  constructor(reward: RewardFunction, options: CachedRewardOptions = {}) {
    if (!(reward instanceof RewardFunction)) {
      throw new StatesetError("INVALID_OPTION", "cachedReward() was given no reward.", {
        hint: "Write cachedReward(new SomeReward()), or make one of a function with rewardFunction().",
      });
    }
    const { maxEntries } = parseOptions(schema, options, "cachedReward()");
    super({ name: reward.name, weight: reward.weight });
    this.reward = reward;
    this.#maxEntries = maxEntries;
  }

  /** How often a score was known, and how often it was computed. */
  get counts(): { hits: number; computed: number } {
    return { hits: this.#hits, computed: this.#computed };
  }

  /** The reward's own: that its scores are kept changes none of them. */
  override describe(): Record<string, unknown> {
    return this.reward.describe();
  }

  override async compute(conversation: RewardInput, context: RewardContext = {}): Promise<RewardResult> {
    // Whoever wants to know of the parts needs them computed.
    if (context.onPart) return this.reward.compute(conversation, context);
    const key = keyOf(conversation, context);
    const known = this.#known.get(key);
    if (!known) return this.#computeAnew(key, conversation, context);
    let result: RewardResult;
    try {
      result = await known;
    } catch {
      // It failed for somebody else, whose time was up perhaps.
      return this.compute(conversation, context);
    }
    this.#hits++;
    this.#keep(key, known);
    return result;
  }

  #computeAnew(key: string, conversation: RewardInput, context: RewardContext): Promise<RewardResult> {
    this.#computed++;
    const scored = this.#compute(conversation, context);
    this.#keep(key, scored);
    scored.catch(() => {
      if (this.#known.get(key) === scored) this.#known.delete(key);
    });
    return scored;
  }

  #keep(key: string, scored: Promise<RewardResult>): void {
    this.#known.delete(key);
    this.#known.set(key, scored);
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= this.#maxEntries) break;
      this.#known.delete(oldest);
    }
  }

  async #compute(conversation: RewardInput, context: RewardContext): Promise<RewardResult> {
    let asked = false;
    const alone = Object.defineProperty({ ...context }, "group", {
      get() {
        asked = true;
        return context.group;
      },
    });
    const result = await this.reward.compute(conversation, alone);
    if (!asked) return result;
    const message = `Reward "${this.name}" asked for the group of a conversation, so its score is not of the conversation alone and cannot be kept.`;
    throw new StatesetError("REWARD_FAILED", message, {
      hint: 'Give cachedReward() the parts that score a conversation by itself; a judge does so with mode: "absolute".',
      // A mistake in code, which no other conversation mends: a run stops at it.
      cause: new TypeError(message),
    });
  }
}

/** All that a reward sees of a conversation, and what else may decide: whether it is an evaluation, and whether there is a reference to ask. */
function keyOf({ turns, scenario, ended, metadata }: RewardInput, { evaluation, score }: RewardContext): string {
  const seen = [turns, scenario, ended, metadata, evaluation === true, score !== undefined];
  // JSON: no text that somebody says can end a field and begin another, and so pass for another conversation.
  return createHash("sha256").update(canonicalJson(seen)).digest("base64url");
}
