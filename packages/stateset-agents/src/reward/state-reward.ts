import { z } from "zod";
import type { RewardResult } from "../conversation/trajectory.ts";
import { counted } from "../counted.ts";
import { StatesetError } from "../error.ts";
import { RewardFunction, type RewardInput, type RewardOptions } from "./reward-function.ts";
import { parseRewardOptions } from "./reward-options.ts";

/** How good a final state is: yes or no, or a number from 0 to 1. It must not change the state. */
export type StateCheck<State> = (
  state: State,
  conversation: RewardInput,
) => boolean | number | Promise<boolean | number>;

export interface StateRewardOptions<State = unknown> extends RewardOptions {
  /** Default: the task's own check, which the environment has made. */
  check?: StateCheck<State>;
  /** What progress counts in a task that was not done: the score is partial × progress. Default 0. Not with a `check`. */
  partial?: number;
}

/**
 * What the world looks like when a stateful task is over, and nothing of what was said: `success` of the task (1 or 0, less for progress
 * alone), or a check of your own on the final `state`. Not a heuristic. A check that the first state meets already pays for doing nothing.
 *
 * @example
 * new StateReward<Shop>({ check: ({ orders }) => orders["A1"]?.status === "refunded" });
 */
export class StateReward<State = unknown> extends RewardFunction {
  readonly #check: StateCheck<State> | undefined;
  readonly #partial: number;

  constructor(options: StateRewardOptions<State> = {}) {
    const { check, partial, ...rest } = parseRewardOptions(options, "StateReward", "state", {
      check: z.custom<StateCheck<State>>((value) => typeof value === "function", "a function was expected").optional(),
      partial: z.number().min(0).max(1).optional(),
    });
    if (check && partial !== undefined) {
      throw new StatesetError("INVALID_OPTION", "StateReward was given both `check` and `partial`.", {
        hint: "`partial` weighs the progress that the task's own check found: let yours return a number from 0 to 1.",
      });
    }
    super(rest, { check, partial: partial ?? 0 });
    this.#check = check;
    this.#partial = partial ?? 0;
  }

  override async compute(conversation: RewardInput): Promise<RewardResult> {
    const { score, why } = this.#check
      ? await this.#checked(this.#check, conversation)
      : this.#done(conversation.metadata, conversation.scenario?.id);
    const writes: unknown = conversation.metadata?.writes;
    const told = Array.isArray(writes) ? `${why}; the state was written ${counted(writes.length, "time")}` : why;
    return { score, breakdown: { [this.name]: score }, metadata: { reasons: [{ why: told }] } };
  }

  #done(metadata: RewardInput["metadata"], id = "?"): { score: number; why: string } {
    const { success, progress, why } = metadata ?? {};
    if (typeof success !== "boolean") {
      throw new StatesetError("REWARD_FAILED", `Nothing says whether the task of scenario "${id}" was done.`, {
        hint: "Use a TaskEnvironment, set `success` in your environment's metadata, or give StateReward a `check` of the state.",
      });
    }
    if (success) return { score: 1, why: "the task was done" };
    const far = typeof progress === "number" ? progress : 0;
    const told = typeof why === "string" ? `: ${why}` : "";
    return { score: this.#partial * far, why: `the task was not done (progress ${far})${told}` };
  }

  async #checked(check: StateCheck<State>, conversation: RewardInput): Promise<{ score: number; why: string }> {
    const { metadata, scenario } = conversation;
    if (metadata?.state === undefined) {
      throw new StatesetError("REWARD_FAILED", `The conversation of scenario "${scenario?.id ?? "?"}" has no state.`, {
        hint: "StateReward({ check }) reads `metadata.state`: use a stateful TaskEnvironment, or set it in your environment.",
      });
    }
    const found: unknown = await check(metadata.state as State, conversation);
    const score = typeof found === "boolean" ? Number(found) : found;
    if (typeof score !== "number" || !(score >= 0 && score <= 1)) {
      throw new StatesetError("REWARD_FAILED", `The check of reward "${this.name}" gave ${String(found)}.`, {
        hint: "Return true, false, or a number from 0 to 1.",
      });
    }
    return { score, why: `the check of the final state gave ${String(found)}` };
  }
}
