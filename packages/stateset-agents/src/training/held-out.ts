import type { Environment } from "../environment/environment.ts";
import type { Scenario } from "../environment/scenario.ts";
import { StatesetError } from "../error.ts";
import { evaluate } from "../evaluation/evaluate.ts";
import { splitHeldOut } from "../evaluation/split.ts";
import { seedOf } from "../random.ts";
import type { RolloutSettings } from "../rollout/rollout.ts";
import type { EvaluationResult } from "../run/events.ts";
import type { TrainingConfig } from "./config.ts";

/** Evaluation on scenarios that training never sees: one part selects the best checkpoint, the other is only reported. */
export interface HeldOutEvaluation {
  evaluate(step: number, set: EvaluationResult["set"]): Promise<EvaluationResult>;
}

export interface HeldOutOptions {
  environment: Environment;
  scenarios: readonly Scenario[];
  rollout: RolloutSettings;
  config: TrainingConfig;
}

/**
 * The same scenarios are sampled with the same seeds every time, so that evaluations differ by the policy alone.
 * With a single scenario both parts are that one.
 */
export function createHeldOut({ environment, scenarios, rollout, config }: HeldOutOptions): HeldOutEvaluation {
  if (scenarios.length === 0) {
    throw new StatesetError("INVALID_OPTION", "The evaluation has no scenarios.", {
      hint: "Give at least one held-out scenario, or leave the evaluation out.",
    });
  }
  const { seed, evaluation, sampling } = config;
  const sets =
    scenarios.length === 1
      ? { selection: scenarios, report: scenarios }
      : splitHeldOut(scenarios, { seed: seedOf(seed, "held-out"), selectionShare: evaluation.selectionShare });
  const { agent, reward, maxTurns, concurrency, environmentTimeoutMs, rewardTimeoutMs } = rollout;
  return {
    async evaluate(step, set) {
      const options = {
        agent,
        environment,
        scenarios: sets[set],
        samples: evaluation.samples,
        seed: seedOf(seed, "evaluation"),
        maxTurns,
        concurrency,
        environmentTimeoutMs,
        rewardTimeoutMs,
        ...(reward && { reward }),
        ...(sampling.temperature !== undefined && { temperature: sampling.temperature }),
        ...(sampling.maxTokens !== undefined && { maxTokens: sampling.maxTokens }),
      };
      try {
        const result = await evaluate(options);
        const parts = Object.entries(result.parts).map(([name, estimate]) => [name, estimate.mean]);
        return {
          step,
          set,
          reward: result.reward,
          parts: Object.fromEntries(parts),
          failed: result.failed,
          failures: result.failures,
        };
      } catch (error) {
        // An evaluation in which everything failed says nothing, but it must not end the run.
        if (!StatesetError.isInstance(error) || !["ENVIRONMENT_FAILED", "REWARD_FAILED"].includes(error.code))
          throw error;
        const none = { mean: Number.NaN, low: Number.NaN, high: Number.NaN, count: 0 };
        const failed = sets[set].length * evaluation.samples;
        return { step, set, reward: none, parts: {}, failed, failures: [error.message] };
      }
    },
  };
}

/** How an evaluation stands in metrics.jsonl. */
export function evaluationMetrics({ set, reward, parts, failed }: EvaluationResult): Record<string, number> {
  return {
    [`${set}/reward`]: reward.mean,
    [`${set}/low`]: reward.low,
    [`${set}/high`]: reward.high,
    [`${set}/failed`]: failed,
    ...Object.fromEntries(Object.entries(parts).map(([name, value]) => [`${set}/part/${name}`, value])),
  };
}
