import type { Agent } from "../agent/agent.ts";
import type { Environment } from "../environment/environment.ts";
import type { Scenario } from "../environment/scenario.ts";
import { StatesetError } from "../error.ts";
import { evaluateWith } from "../evaluation/evaluate.ts";
import { splitHeldOut } from "../evaluation/split.ts";
import { seedOf } from "../random.ts";
import type { ReferenceScorer } from "../reward/reference-scorer.ts";
import type { RewardFunction } from "../reward/reward-function.ts";
import type { RewardEvaluation } from "../run/event.ts";
import type { TrainingConfig } from "./config.ts";

/** Evaluation on scenarios that training never sees: one part selects the best checkpoint, the other is only reported. */
export interface HeldOutEvaluation {
  evaluate(step: number, set: RewardEvaluation["set"], signal?: AbortSignal): Promise<RewardEvaluation>;
}

export interface HeldOutOptions {
  agent: Agent;
  environment: Environment;
  scenarios: readonly Scenario[];
  reward: RewardFunction | undefined;
  config: TrainingConfig;
  scorer: ReferenceScorer | undefined;
}

/**
 * The same scenarios are sampled with the same seeds every time, so that evaluations differ by the policy alone.
 * With a single scenario both parts are that one.
 */
export function createHeldOut({ scenarios, config, scorer, ...parts }: HeldOutOptions): HeldOutEvaluation {
  if (scenarios.length === 0) {
    throw new StatesetError("INVALID_OPTION", "The evaluation has no scenarios.", {
      hint: "Give at least one held-out scenario, or leave the evaluation out.",
    });
  }
  const { seed, evaluation, sampling, maxTurns, concurrency, timeouts } = config;
  const sets =
    scenarios.length === 1
      ? { selection: scenarios, report: scenarios }
      : splitHeldOut(scenarios, { seed: seedOf(seed, "held-out"), selectionShare: evaluation.selectionShare });
  return {
    async evaluate(step, set, signal) {
      const { samples } = evaluation;
      const settings = { samples, seed: seedOf(seed, "evaluation"), sampling, maxTurns, concurrency, timeouts, signal };
      try {
        const result = await evaluateWith({ ...parts, ...settings, scenarios: sets[set] }, scorer);
        const means = Object.entries(result.parts).map(([name, estimate]) => [name, estimate.mean]);
        return {
          step,
          set,
          reward: result.reward,
          parts: Object.fromEntries(means),
          scenarios: result.scenarios,
          failed: result.failed,
          failures: result.failures,
          partFailures: result.partFailures,
        };
      } catch (error) {
        // An evaluation in which everything failed says nothing, but it must not end the run.
        if (
          !StatesetError.isInstance(error) ||
          !["ENVIRONMENT_FAILED", "HOOK_FAILED", "REWARD_FAILED"].includes(error.code)
        )
          throw error;
        const none = { mean: Number.NaN, low: Number.NaN, high: Number.NaN, count: 0 };
        const failed = sets[set].length * evaluation.samples;
        return { step, set, reward: none, parts: {}, scenarios: [], failed, failures: [error.message] };
      }
    },
  };
}
