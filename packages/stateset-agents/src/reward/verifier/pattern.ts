import type { RewardResult } from "../../conversation/trajectory.ts";
import { StatesetError } from "../../error.ts";
import { RewardFunction, type RewardInput, type RewardOptions } from "../reward-function.ts";
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

  constructor({ pattern, replies = "last", ...rest }: PatternOptions) {
    super({ name: "pattern", ...rest });
    if (!(pattern instanceof RegExp)) {
      throw new StatesetError("INVALID_OPTION", "PatternReward needs a regular expression as `pattern`.", {
        hint: "For example { pattern: /ticket \\d+/ }.",
      });
    }
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
