import { z } from "zod";
import type { RewardResult } from "../../conversation/trajectory.ts";
import { StatesetError } from "../../error.ts";
import { RewardFunction, type RewardInput, type RewardOptions } from "../reward-function.ts";
import { parseRewardOptions } from "../reward-options.ts";
import { repliesOf } from "../text/replies.ts";
import { clamp, wordsOf } from "../text/words.ts";

export interface CorrectnessOptions extends RewardOptions {
  /** The right answer. Default: the scenario's `expected`. */
  expected?: string;
}

/**
 * Compares the last reply with the expected answer by the words they share (F1, as in SQuAD), counting each word as often as it
 * stands there. A reply that states the whole answer scores at least 0.8; one that buries it among many other words, less.
 * Wording counts, not meaning: for numbers, exact answers or JSON use the verifiers, for open answers a judge.
 */
export class CorrectnessReward extends RewardFunction {
  readonly #expected: string | undefined;

  constructor(options: CorrectnessOptions = {}) {
    const { expected, ...rest } = parseRewardOptions(options, "CorrectnessReward", "correctness", {
      expected: z.string().optional(),
    });
    super(rest, { expected });
    this.#expected = expected;
  }

  override async compute({ turns, scenario }: RewardInput): Promise<RewardResult> {
    const expected = this.#expected ?? scenario?.expected;
    if (expected === undefined) {
      throw new StatesetError(
        "REWARD_FAILED",
        `Scenario "${scenario?.id ?? "?"}" says nothing about the right answer.`,
        {
          hint: "Give it `expected`, or give CorrectnessReward the option `expected`.",
        },
      );
    }
    const score = agreement(wordsOf(repliesOf(turns).at(-1)?.text ?? ""), wordsOf(expected));
    return { score, breakdown: { [this.name]: score } };
  }
}

function agreement(said: readonly string[], expected: readonly string[]): number {
  if (said.length === 0 || expected.length === 0) return 0;
  const left = new Map<string, number>();
  for (const word of expected) left.set(word, (left.get(word) ?? 0) + 1);
  let shared = 0;
  for (const word of said) {
    const count = left.get(word) ?? 0;
    if (count > 0) shared++;
    left.set(word, count - 1);
  }
  const f1 = (2 * shared) / (said.length + expected.length);
  const stated = ` ${said.join(" ")} `.includes(` ${expected.join(" ")} `);
  // Up to 20 words around a stated answer are a sentence; beyond that, an attempt to say everything.
  const surplus = said.length - expected.length;
  return stated ? Math.max(f1, 0.8 * clamp(1 - (surplus - 20) / 40)) : f1;
}
