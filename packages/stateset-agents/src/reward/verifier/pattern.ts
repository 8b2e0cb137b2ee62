import { z } from "zod";
import type { RewardResult } from "../../conversation/trajectory.ts";
import { RewardFunction, type RewardInput, type RewardOptions } from "../reward-function.ts";
import { parseRewardOptions } from "../reward-options.ts";
import { repliesOf } from "../text/replies.ts";

export interface PatternOptions extends RewardOptions {
  pattern: RegExp;
  /** Which replies must match. Default "last". With "all" the score is the share of replies that do. */
  replies?: "last" | "any" | "all";
}

/** 1 when replies match a regular expression, otherwise 0. */
export class PatternReward extends RewardFunction {
  readonly #pattern: RegExp;
  readonly #replies: "last" | "any" | "all";

  constructor(options: PatternOptions) {
    const { pattern, replies, ...rest } = parseRewardOptions(options, "PatternReward", "pattern", {
      pattern: z.instanceof(RegExp, { error: "a regular expression was expected" }),
      replies: z.enum(["last", "any", "all"]).default("last"),
    });
    super(rest, { pattern: String(pattern), replies });
    this.#pattern = pattern;
    this.#replies = replies;
  }

  override async compute({ turns }: RewardInput): Promise<RewardResult> {
    const matches = repliesOf(turns).map(({ text }) => text.search(this.#pattern) >= 0);
    const score = matches.length === 0 ? 0 : this.#score(matches);
    return { score, breakdown: { [this.name]: score } };
  }

  #score(matches: readonly boolean[]): number {
    if (this.#replies === "all") return matches.filter(Boolean).length / matches.length;
    return (this.#replies === "any" ? matches.some(Boolean) : matches.at(-1)) ? 1 : 0;
  }
}
