/** Rewards that a harness gives itself: returned by its run, or posted while it runs. */
import { inspect } from "node:util";
import { z } from "zod";
import { sameJson } from "../conversation/same-json.ts";
import type { RewardResult } from "../conversation/trajectory.ts";
import { StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";

/** A number, or one with its parts. */
export type HarnessReward = number | { reward: number; parts?: Record<string, number> | undefined };

const number = z.number("a finite number was expected");

export const postedRewardSchema = z.strictObject({
  reward: number,
  parts: z.record(z.string().min(1), number).optional(),
});

/** What a run returned; undefined where it said nothing of a reward. */
export function readReward(given: unknown): Exclude<HarnessReward, number> | undefined {
  if (given === undefined || given === null) return undefined;
  if (typeof given === "object" && !Array.isArray(given)) {
    return parseOptions(postedRewardSchema, given, "what the harness returned");
  }
  if (Number.isFinite(given)) return { reward: given as number };
  throw new StatesetError(
    "INVALID_OPTION",
    `The harness returned ${inspect(given).slice(0, 100)}, and a finite number or { reward, parts } was expected.`,
  );
}

/** The one reward there is of a run. Two that differ, or one beside the reward of train(), would leave it to chance which counts. */
export function theReward(given: {
  returned: Exclude<HarnessReward, number> | undefined;
  posted: Exclude<HarnessReward, number> | undefined;
  /** Whether a reward function scores the turns. */
  scored: boolean;
}): RewardResult | undefined {
  const { returned, posted, scored } = given;
  if (returned && posted && !sameJson(returned, posted)) {
    throw notOne("The harness posted one reward and returned another.", "Let it do one of the two.");
  }
  const own = returned ?? posted;
  if (own && scored) {
    throw notOne("The harness gives a reward, and so does the option `reward`.", "Leave one of them out.");
  }
  if (!own && !scored) {
    throw notOne(
      "The harness gave no reward, and there is no option `reward`.",
      "Return a number from its run, wherever that ends.",
    );
  }
  return own && { score: own.reward, breakdown: own.parts ?? { harness: own.reward } };
}

function notOne(message: string, hint: string): StatesetError {
  return new StatesetError("INVALID_OPTION", message, { hint });
}
