import { z } from "zod";
import type { RewardResult, Turn } from "../../conversation/trajectory.ts";
import { StatesetError } from "../../error.ts";
import { type RewardContext, RewardFunction, type RewardInput, type RewardOptions } from "../reward-function.ts";
import { parseRewardOptions } from "../reward-options.ts";
import { fluencyOf } from "../text/fluency.ts";
import { qualityOf } from "../text/quality.ts";
import { repliesOf } from "../text/replies.ts";

/** Something that must have happened: said by the agent (text or pattern), or found by a function. */
export type Criterion = string | RegExp | ((turns: readonly Turn[]) => boolean);

export interface TaskCompletionOptions extends RewardOptions {
  /** The score is the share of these that are met. Default: what the environment found out (`success`, `progress`). */
  criteria?: readonly Criterion[];
}

/**
 * Whether the task was done. With a TaskEnvironment it is not a heuristic: the environment's own check decides. With `criteria`,
 * texts and patterns count only in replies that are real sentences, so that a list of keywords meets none (a heuristic; functions are not).
 */
export class TaskCompletionReward extends RewardFunction {
  readonly #criteria: readonly Criterion[];

  constructor(options: TaskCompletionOptions = {}) {
    const { criteria, ...rest } = parseRewardOptions(options, "TaskCompletionReward", "taskCompletion", {
      criteria: z
        .array(z.custom<Criterion>(isCriterion, "a text, a regular expression or a function was expected"))
        .default([]),
    });
    super(rest, { criteria });
    this.#criteria = criteria;
  }

  override async compute(
    { turns, metadata, scenario }: RewardInput,
    context: RewardContext = {},
  ): Promise<RewardResult> {
    const score = this.#criteria.length > 0 ? await this.#met(turns, context) : progressOf(metadata, scenario?.id);
    return { score, breakdown: { [this.name]: score } };
  }

  async #met(turns: readonly Turn[], context: RewardContext): Promise<number> {
    const sentences = repliesOf(turns).filter((reply) => qualityOf({ ...reply, earlier: [] }).score >= 0.5);
    const reads = this.#criteria.some((criterion) => typeof criterion !== "function") && sentences.length > 0;
    const fluency = reads ? await fluencyOf(turns, context, this.name) : undefined;
    const sound = sentences.filter(({ index }) => (fluency?.get(index) ?? 1) >= 0.5);
    const met = this.#criteria.filter((criterion) => {
      if (typeof criterion === "function") return criterion(turns);
      if (criterion instanceof RegExp) return sound.some(({ text }) => text.search(criterion) >= 0);
      return sound.some(({ text }) => text.toLowerCase().includes(criterion.toLowerCase()));
    });
    return met.length / this.#criteria.length;
  }
}

function isCriterion(value: unknown): boolean {
  return typeof value === "string" || typeof value === "function" || value instanceof RegExp;
}

function progressOf(metadata: Record<string, unknown> | undefined, scenarioId = "?"): number {
  if (typeof metadata?.progress === "number") return metadata.progress;
  if (typeof metadata?.success === "boolean") return metadata.success ? 1 : 0;
  throw new StatesetError("REWARD_FAILED", `Nothing says whether the task of scenario "${scenarioId}" was done.`, {
    hint: "Use a TaskEnvironment, set `success` in your environment's metadata, or give TaskCompletionReward `criteria`.",
  });
}
