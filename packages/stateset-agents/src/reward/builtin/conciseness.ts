import { z } from "zod";
import type { RewardResult } from "../../conversation/trajectory.ts";
import { StatesetError } from "../../error.ts";
import { type RewardContext, RewardFunction, type RewardInput, type RewardOptions } from "../reward-function.ts";
import { parseRewardOptions } from "../reward-options.ts";
import { qualityOf } from "../text/quality.ts";
import { meanOverReplies } from "../text/replies.ts";
import { clamp, wordsOf } from "../text/words.ts";

export interface ConcisenessOptions extends RewardOptions {
  /** Fewer words than this earn less. Default 2. */
  minWords?: number;
  /** More words than this earn less, down to nothing at three times as many. Default 20. */
  maxWords?: number;
}

/** Heuristic: whether replies are brief. Counts words, so it says nothing about what is said; combine it with rewards that do. */
export class ConcisenessReward extends RewardFunction {
  readonly #minWords: number;
  readonly #maxWords: number;

  constructor(options: ConcisenessOptions = {}) {
    const { minWords, maxWords, ...rest } = parseRewardOptions(options, "ConcisenessReward", "conciseness", {
      minWords: z.int().min(1).default(2),
      maxWords: z.int().min(1).default(20),
    });
    super(rest, { minWords, maxWords });
    if (minWords > maxWords) {
      throw new StatesetError("INVALID_OPTION", `minWords (${minWords}) is more than maxWords (${maxWords}).`);
    }
    this.#minWords = minWords;
    this.#maxWords = maxWords;
  }

  override compute(conversation: RewardInput, context: RewardContext = {}): Promise<RewardResult> {
    return meanOverReplies(this.name, conversation, context, (reply) => {
      const count = wordsOf(reply.text).length;
      const brief = clamp(1 - (count - this.#maxWords) / (2 * this.#maxWords));
      return Math.min(1, count / this.#minWords) * brief * qualityOf(reply).score;
    });
  }
}
