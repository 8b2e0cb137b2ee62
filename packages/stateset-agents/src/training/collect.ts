/** The conversations of one step: sampled, rewarded, shaped, and topped up where the algorithm drops groups. */
import type { Algorithm } from "../algorithm/algorithm.ts";
import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import { seedOf } from "../random.ts";
import { type Example, examplesOf } from "./batch.ts";
import type { TrainingConfig } from "./config.ts";
import type { TrainingControls } from "./controls.ts";
import { emptyReport, type RolloutReport, type RolloutSettings, sampleGroups } from "./rollout.ts";
import { scenarioAt } from "./scenario-order.ts";

export interface Collected {
  groups: TrajectoryGroup[];
  examples: Example[];
  report: RolloutReport;
  /** Scenarios drawn in all: how far the data position moves. */
  drawn: number;
  /** Groups the algorithm did not want (DAPO's dynamic sampling). */
  refused: number;
  rounds: number;
  /** The longest a conversation of this run may get, in sampled tokens. */
  maxTokens: number;
}

export interface CollectPlan {
  step: number;
  /** Scenarios drawn before this step. */
  position: number;
  config: TrainingConfig;
  controls: TrainingControls;
  algorithm: Algorithm;
  rollout: RolloutSettings;
  /** Tokens per reply at most. */
  replyTokens: number;
}

export async function collect(plan: CollectPlan): Promise<Collected> {
  const { step, config, controls, algorithm, rollout } = plan;
  const wanted = config.groupsPerStep * config.accumulation;
  const report = emptyReport();
  const groups: TrajectoryGroup[] = [];
  let drawn = 0;
  let refused = 0;
  let rounds = 0;
  let maxTokens = plan.replyTokens;
  // Without keepGroup there is one round: groups lost to failures are not made up for, so that a failing environment cannot stall a run.
  const maxRounds = algorithm.keepGroup ? Math.max(1, algorithm.maxSamplingRounds ?? 1) : 1;
  while (groups.length < wanted && rounds < maxRounds) {
    rounds++;
    const missing = wanted - groups.length;
    const sampled: TrajectoryGroup[] = [];
    for (let first = 0; first < missing; first += config.groupsPerStep) {
      const count = Math.min(config.groupsPerStep, missing - first);
      const requests = Array.from({ length: count }, () => {
        const ordinal = drawn++;
        return {
          id: `s${step}-g${ordinal}`,
          scenario: scenarioAt(
            rollout.environment.scenarios,
            config.seed,
            plan.position + ordinal,
            controls.scenarioWeights,
          ),
          size: config.groupSize,
          seed: seedOf(config.seed, "rollout", step, ordinal),
        };
      });
      sampled.push(...(await sampleGroups(rollout, requests, report)));
    }
    maxTokens = Math.max(maxTokens, plan.replyTokens * mostReplies(sampled));
    for (const group of sampled) {
      if (!algorithm.keepGroup || keeps(algorithm, group, maxTokens)) groups.push(group);
      else refused++;
    }
  }
  return { groups, examples: shaped(algorithm, groups, maxTokens), report, drawn, refused, rounds, maxTokens };
}

function keeps(algorithm: Algorithm, group: TrajectoryGroup, maxTokens: number): boolean {
  const sequences = shaped(algorithm, [group], maxTokens).map((example) => example.sequence);
  return sequences.length > 0 && algorithm.keepGroup!(sequences);
}

function shaped(algorithm: Algorithm, groups: readonly TrajectoryGroup[], maxTokens: number): Example[] {
  const examples = examplesOf(groups);
  if (algorithm.shapeReward) {
    for (const { sequence } of examples) sequence.reward = algorithm.shapeReward(sequence, maxTokens);
  }
  return examples;
}

function mostReplies(groups: readonly TrajectoryGroup[]): number {
  let most = 1;
  for (const { trajectories } of groups) {
    for (const { turns } of trajectories)
      most = Math.max(most, turns.filter((turn) => turn.role === "assistant").length);
  }
  return most;
}
