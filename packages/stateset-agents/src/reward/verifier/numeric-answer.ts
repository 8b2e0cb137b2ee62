import { z } from "zod";
import type { RewardResult } from "../../conversation/trajectory.ts";
import { StatesetError } from "../../error.ts";
import { RewardFunction, type RewardInput, type RewardOptions } from "../reward-function.ts";
import { parseRewardOptions } from "../reward-options.ts";
import { expectedAnswer, lastReply } from "./expected.ts";
import { numberIn } from "./number-in.ts";

export interface NumericAnswerOptions extends RewardOptions {
  /** Default: the number in the scenario's `expected`. */
  expected?: number;
  /** The largest difference that still counts as right. Default 1e-9, relative to the size of the number. */
  tolerance?: number;
}

/**
 * 1 when the answer is the expected number, otherwise 0. The answer is what follows "####" (GSM8K), stands in \boxed{…} or
 * <answer>…</answer>, follows "the answer is", or else the last number of the last reply: so a list of guesses counts by its last one
 * only, and one at a marked place ("the answer is 41 or 42") not at all. Numbers in digits are read, not those in words.
 */
export class NumericAnswerReward extends RewardFunction {
  readonly #expected: number | undefined;
  readonly #tolerance: number | undefined;

  constructor(options: NumericAnswerOptions = {}) {
    const { expected, tolerance, ...rest } = parseRewardOptions(options, "NumericAnswerReward", "numericAnswer", {
      expected: z.number().optional(),
      tolerance: z.number().min(0).optional(),
    });
    super(rest, { expected, tolerance });
    this.#expected = expected;
    this.#tolerance = tolerance;
  }

  override async compute(conversation: RewardInput): Promise<RewardResult> {
    const expected = this.#expected ?? numberIn(expectedAnswer(undefined, conversation, this.name));
    if (expected === undefined || Number.isNaN(expected)) {
      throw new StatesetError(
        "REWARD_FAILED",
        `The expected answer of scenario "${conversation.scenario?.id ?? "?"}" holds no number.`,
      );
    }
    const said = numberIn(lastReply(conversation));
    const tolerance = this.#tolerance ?? 1e-9 * Math.max(1, Math.abs(expected));
    const score = said !== undefined && Math.abs(said - expected) <= tolerance ? 1 : 0;
    return { score, breakdown: { [this.name]: score }, metadata: { said: said ?? null, expected } };
  }
}
