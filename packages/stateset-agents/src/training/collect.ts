/** The conversations of one step: sampled, rewarded, shaped, and topped up where the algorithm drops groups. */
import type { Algorithm } from "../algorithm/algorithm.ts";
import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import { type Example, examplesOf } from "../learning/micro-batch.ts";
import { seedOf } from "../random.ts";
import { emptyReport, type RolloutReport, type RolloutSettings, sampleGroups } from "../rollout/rollout.ts";
import type { TrainingConfig } from "./config.ts";
import type { TrainingControls } from "./controls.ts";
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
  /** Replies of the longest conversation of the run so far. */
  mostReplies: number;
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
  /** Replies of the longest conversation before this step. */
  mostReplies: number;
}

export async function collect(plan: CollectPlan): Promise<Collected> {
  const { step, config, controls, algorithm, rollout } = plan;
  const wanted = config.groupsPerStep * config.accumulation;
  const report = emptyReport();
  const groups: TrajectoryGroup[] = [];
  let drawn = 0;
  let refused = 0;
  let rounds = 0;
  let mostReplies = plan.mostReplies;
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
      sampled.push(...(await sampleGroups(rollout, requests, report, algorithm.comparesGroups ? 2 : 1)));
    }
    for (const { trajectories } of sampled)
      for (const { turns } of trajectories)
        mostReplies = Math.max(mostReplies, turns.filter((turn) => turn.role === "assistant").length);
    for (const group of sampled) {
      if (!algorithm.keepGroup || keeps(algorithm, group)) groups.push(group);
      else refused++;
    }
  }
  return { groups, examples: shaped(algorithm, groups, plan.replyTokens), report, drawn, refused, rounds, mostReplies };
}

/** Asked of the rewards as they were given: a group in which nobody passes teaches nothing, however its replies differ in length. */
function keeps(algorithm: Algorithm, group: TrajectoryGroup): boolean {
  const sequences = examplesOf([group]).map((example) => example.sequence);
  return sequences.length > 0 && algorithm.keepGroup!(sequences);
}

function shaped(algorithm: Algorithm, groups: readonly TrajectoryGroup[], replyTokens: number): Example[] {
  const examples = examplesOf(groups);
  if (algorithm.shapeReward) {
    for (const { sequence } of examples) sequence.reward = algorithm.shapeReward(sequence, replyTokens);
  }
  return examples;
}
