/**
 * Best-of-N harvesting (rejection sampling): sample N conversations of each scenario, keep the best by reward, imitate them.
 * The plain baseline that reinforcement learning has to beat; also how a first data set is made. (RAFT, Dong et al. 2023)
 */
import { z } from "zod";
import type { Agent } from "../agent/agent.ts";
import type { TokenChain, Trajectory, TrajectoryGroup } from "../conversation/trajectory.ts";
import type { Environment } from "../environment/environment.ts";
import type { Scenario } from "../environment/scenario.ts";
import { StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";
import { seedOf } from "../random.ts";
import type { RewardFunction } from "../reward/reward-function.ts";
import { requireParts } from "../rollout/parts.ts";
import { allFailed, emptyReport, noneCameThrough, type RolloutReport } from "../rollout/report.ts";
import { environmentRollout, sampleGroups } from "../rollout/rollout.ts";
import { rolloutShape } from "../rollout/settings.ts";

/** The settings of harvestBestOfN(), without what stops it. */
export const harvestShape = {
  n: z.int().min(2).default(8).describe("Conversations sampled of each scenario."),
  keep: z.int().min(1).default(1).describe("How many of them are kept at most."),
  minReward: z.number().optional().describe("Conversations below this are never kept."),
  aboveMean: z.boolean().default(true).describe("Keep only what is better than its group's mean."),
  seed: z.int().min(0).default(0),
  ...rolloutShape,
} as const;

const schema = z.strictObject({
  ...harvestShape,
  signal: z
    .instanceof(AbortSignal)
    .optional()
    .describe("Stops it within a decoding step; harvestBestOfN() then rejects."),
});

export type HarvestSettings = z.input<typeof schema>;

export interface HarvestOptions extends HarvestSettings {
  agent: Agent;
  environment: Environment;
  reward?: RewardFunction | undefined;
  /** Default: all of the environment's. */
  scenarios?: readonly Scenario[];
}

export interface Harvest {
  kept: Trajectory[];
  /** Everything sampled, by scenario: for `pairsFromGroups()`, `ValueFunction`, or a choice of your own. */
  groups: TrajectoryGroup[];
  /** Mean reward of everything sampled, and of what was kept (NaN when nothing was). */
  sampledReward: number;
  keptReward: number;
  report: RolloutReport;
}

export async function harvestBestOfN(options: HarvestOptions): Promise<Harvest> {
  requireParts({ ...options }, "harvestBestOfN()");
  const { agent, environment, reward, scenarios = environment.scenarios, ...rest } = options;
  const o = parseOptions(schema, rest, "harvestBestOfN()");
  requireRejected(o, "harvestBestOfN()");
  await agent.initialize();
  const report = emptyReport();
  const requests = scenarios.map((scenario, i) => ({
    id: `harvest-${i}`,
    scenario,
    size: o.n,
    seed: seedOf(o.seed, "harvest", i),
  }));
  const rollout = environmentRollout({ agent, environment, reward, settings: o, learn: true });
  const groups = await sampleGroups(rollout, requests, { report, signal: o.signal });
  if (groups.length === 0 || noneCameThrough(report)) throw allFailed(report, "harvestBestOfN()");
  const sampled = groups.flatMap((group) => group.trajectories);
  const kept = groups.flatMap(({ trajectories }) => {
    const mean = meanReward(trajectories);
    return trajectories
      .filter(({ ended }) => ended !== "failed")
      .sort((a, b) => b.reward.score - a.reward.score)
      .slice(0, o.keep)
      .filter(
        ({ reward: { score } }) => score >= (o.minReward ?? Number.NEGATIVE_INFINITY) && (!o.aboveMean || score > mean),
      );
  });
  return { kept, groups, sampledReward: meanReward(sampled), keptReward: meanReward(kept), report };
}

export function requireRejected({ n, keep }: { n: number; keep: number }, where: string): void {
  if (keep < n) return;
  throw new StatesetError("INVALID_OPTION", `${where} keeps ${keep} of ${n}: nothing would be rejected.`, {
    hint: "Make `keep` less than `n`.",
  });
}

/** What trainSupervised() imitates of sampled conversations: their recorded tokens. */
export function chainsOf(trajectories: readonly Trajectory[]): TokenChain[] {
  return trajectories.flatMap((trajectory) => {
    if (trajectory.stub) {
      throw new StatesetError("NOT_TRAINABLE", `Trajectory ${trajectory.id} was made up by a stub.`);
    }
    return trajectory.chains;
  });
}

function meanReward(trajectories: readonly Trajectory[]): number {
  return trajectories.reduce((sum, { reward }) => sum + reward.score, 0) / trajectories.length;
}
