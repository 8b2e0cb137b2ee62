import { StatesetError } from "../../error.ts";
import type { RewardInput } from "../reward-function.ts";
import { repliesOf } from "../text/replies.ts";

/** The agent's last reply; "" when there is none. */
export function lastReply({ turns }: RewardInput): string {
  return repliesOf(turns).at(-1)?.text ?? "";
}

/** The answer to check against. A verifier without one is misconfigured, which is a failure and not a wrong answer. */
export function expectedAnswer(own: string | undefined, { scenario }: RewardInput, reward: string): string {
  const expected = own ?? scenario?.expected;
  if (expected !== undefined) return expected;
  throw new StatesetError(
    "REWARD_FAILED",
    `Reward "${reward}" has nothing to check scenario "${scenario?.id ?? "?"}" against.`,
    {
      hint: "Give the scenario `expected`, or give the reward the option `expected`.",
    },
  );
}
