import type { Environment } from "../environment/environment.ts";
import type { Scenario } from "../environment/scenario.ts";
import { StatesetError } from "../error.ts";
import { bootstrapGroups, mean } from "../evaluation/bootstrap.ts";
import { splitHeldOut } from "../evaluation/split.ts";
import { seedOf } from "../random.ts";
import type { EvaluationResult } from "./callbacks.ts";
import type { TrainingConfig } from "./config.ts";
import { emptyReport, type RolloutSettings, sampleGroups } from "./rollout.ts";

/** Evaluation on scenarios that training never sees: one part selects the best checkpoint, the other is only reported. */
export interface HeldOutEvaluation {
  evaluate(step: number, set: EvaluationResult["set"]): Promise<EvaluationResult>;
}

export interface HeldOutOptions {
  environment: Environment;
  /** Default: the environment's own. */
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
  const { seed, evaluation } = config;
  const sets =
    scenarios.length === 1
      ? { selection: scenarios, report: scenarios }
      : splitHeldOut(scenarios, { seed: seedOf(seed, "held-out"), selectionShare: evaluation.selectionShare });
  return {
    async evaluate(step, set) {
      const report = emptyReport();
      const requests = sets[set].map((scenario, index) => ({
        id: `evaluation-${set}-${index}`,
        scenario,
        size: evaluation.samples,
        seed: seedOf(seed, "evaluation", set, index),
      }));
      const groups = await sampleGroups({ ...rollout, environment, learn: false }, requests, report, 1);
      const rewards = groups.map((group) => group.trajectories.map(({ reward }) => reward.score));
      return {
        step,
        set,
        reward: bootstrapGroups(rewards, { seed: seedOf(seed, "bootstrap") }),
        parts: meanParts(groups.flatMap((group) => group.trajectories.map(({ reward }) => reward.breakdown))),
        failed: report.requested - report.completed,
      };
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

function meanParts(breakdowns: readonly Record<string, number>[]): Record<string, number> {
  const names = [...new Set(breakdowns.flatMap(Object.keys))].sort();
  return Object.fromEntries(
    names.map((name) => [name, mean(breakdowns.flatMap((parts) => (name in parts ? [parts[name]!] : [])))]),
  );
}
