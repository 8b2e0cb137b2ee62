import { z } from "zod";
import type { RewardResult } from "../../conversation/trajectory.ts";
import { RewardFunction, type RewardInput, type RewardOptions } from "../reward-function.ts";
import { parseRewardOptions } from "../reward-options.ts";
import { expectedAnswer, lastReply } from "./expected.ts";

export interface ExactMatchOptions extends RewardOptions {
  /** Default: the scenario's `expected`. */
  expected?: string;
  /** Compare letter by letter. Default false: case, punctuation at the ends and extra spaces do not count. */
  strict?: boolean;
}

/** 1 when the last reply is the expected answer, otherwise 0. */
export class ExactMatchReward extends RewardFunction {
  readonly #expected: string | undefined;
  readonly #strict: boolean;

  constructor(options: ExactMatchOptions = {}) {
    const { expected, strict, ...rest } = parseRewardOptions(options, "ExactMatchReward", "exactMatch", {
      expected: z.string().optional(),
      strict: z.boolean().default(false),
    });
    super(rest, { expected, strict });
    this.#expected = expected;
    this.#strict = strict;
  }

  override async compute(conversation: RewardInput): Promise<RewardResult> {
    const normal = (text: string) => (this.#strict ? text : normalised(text));
    const right = normal(lastReply(conversation)) === normal(expectedAnswer(this.#expected, conversation, this.name));
    const score = right ? 1 : 0;
    return { score, breakdown: { [this.name]: score } };
  }
}

function normalised(text: string): string {
  return text
    .normalize("NFKC")
    .toLowerCase()
    .replace(/^[\s\p{P}]+|[\s\p{P}]+$/gu, "")
    .replace(/\s+/g, " ");
}
