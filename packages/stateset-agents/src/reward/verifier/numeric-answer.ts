import { z } from "zod";
import type { RewardResult } from "../../conversation/trajectory.ts";
import { StatesetError } from "../../error.ts";
import { RewardFunction, type RewardInput, type RewardOptions } from "../reward-function.ts";
import { parseRewardOptions } from "../reward-options.ts";
import { expectedAnswer, lastReply } from "./expected.ts";

export interface NumericAnswerOptions extends RewardOptions {
  /** Default: the number in the scenario's `expected`. */
  expected?: number;
  /** The largest difference that still counts as right. Default 1e-9, relative to the size of the number. */
  tolerance?: number;
}

/**
 * 1 when the answer is the expected number, otherwise 0. The answer is what follows "####" (GSM8K), stands in \boxed{…}, follows
 * "the answer is", or else the last number of the last reply: so a list of guesses counts by its last one only.
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

const number = String.raw`[-−]?\$?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?:\s*\/\s*\d+(?:\.\d+)?)?|[-−]?\.\d+`;
const marked = [
  new RegExp(`####\\s*(${number})`, "gi"),
  new RegExp(String.raw`\\boxed\{\s*(${number})\s*\}`, "gi"),
  new RegExp(`answer\\s*(?:is|:|=)\\s*(${number})`, "gi"),
  new RegExp(`(${number})`, "gi"),
];

/** The number a text gives as its answer. Understands 1,234.5, $12, 3/4 and −2. */
export function numberIn(text: string): number | undefined {
  for (const pattern of marked) {
    const found = [...text.matchAll(pattern)].at(-1)?.[1];
    if (found === undefined) continue;
    const [top, bottom] = found
      .replace(/[$,\s]/g, "")
      .replace("−", "-")
      .split("/")
      .map(Number);
    return bottom === undefined ? top : top! / bottom;
  }
  return undefined;
}
