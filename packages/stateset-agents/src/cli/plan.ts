/** How long a run will take, from a short measurement. */
import { buildTokenTree } from "../conversation/token-tree.ts";
import type { Project } from "../project/build-project.ts";
import { seedOf } from "../random.ts";
import { emptyReport } from "../rollout/report.ts";
import { environmentRollout, sampleGroups } from "../rollout/rollout.ts";
import type { TrainingConfig } from "../training/config.ts";

export interface TimePlan {
  /** Measured on one group. */
  tokensPerSecond: number;
  tokensPerReply: number;
  rolloutMsPerStep: number;
  updateMsPerStep: number;
  totalMs: number;
}

/** Plays one group and scores it once. Sampling whole steps batches more groups together, so this is rather too long than too short. */
export async function planTime(project: Project, config: TrainingConfig): Promise<TimePlan> {
  const scenario = project.environment.scenarios[0]!;
  const report = emptyReport();
  const startedAt = performance.now();
  const rollout = environmentRollout({ ...project, settings: config, learn: true });
  const request = { id: "plan", scenario, size: config.groupSize, seed: seedOf(config.seed, "plan") };
  const groups = await sampleGroups(rollout, [request], { report, minimum: 1 });
  const sampledAt = performance.now();
  const chains = groups.flatMap((group) => group.trajectories.flatMap((one) => one.chains));
  if (chains.length > 0) {
    const { tree } = buildTokenTree(chains);
    (await project.agent.policy.forward(tree, { grad: false })).release();
  }
  const scoredMs = performance.now() - sampledAt;
  const groupsPerStep = config.groupsPerStep * config.accumulation;
  const rolloutMsPerStep = (sampledAt - startedAt) * groupsPerStep;
  // A backward pass costs about two forward passes.
  const updateMsPerStep = 3 * scoredMs * groupsPerStep * config.updatesPerRollout;
  return {
    tokensPerSecond: report.sampledTokens / ((sampledAt - startedAt) / 1000),
    tokensPerReply: report.sampledTokens / Math.max(1, report.replies),
    rolloutMsPerStep,
    updateMsPerStep,
    totalMs: config.steps * (rolloutMsPerStep + updateMsPerStep),
  };
}
