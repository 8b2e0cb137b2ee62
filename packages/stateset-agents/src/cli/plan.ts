/** How long a run will take and how much it will write, from a short measurement. */
import { learnCount } from "../conversation/learn-tokens.ts";
import { toConversationRecord } from "../conversation/record.ts";
import { buildTokenTree } from "../conversation/token-tree.ts";
import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import type { ModelInfo } from "../policy/policy.ts";
import type { Project } from "../project/build-project.ts";
import { seedOf } from "../random.ts";
import { allFailed, emptyReport, noneCameThrough } from "../rollout/report.ts";
import { environmentRollout, sampleGroups, scorerOf } from "../rollout/rollout.ts";
import { mostScenarios } from "../run/evaluation-conversations.ts";
import { encodeStep } from "../run/trajectories.ts";
import type { TrainingConfig } from "../training/config.ts";

export interface TimePlan {
  /** Measured on one group. */
  tokensPerSecond: number;
  tokensPerReply: number;
  rolloutMsPerStep: number;
  updateMsPerStep: number;
  totalMs: number;
}

/** Bytes that a run's folder will hold at most, but for lines of numbers. */
export interface DiskPlan {
  /** One checkpoint, and how many stay: the newest and the best. */
  checkpoint: number;
  checkpoints: number;
  final: number;
  /** All that are written; those of conversations that were lost come on top. */
  trajectories: number;
  total: number;
}

/** Plays one group, scores it once, and sees whether the reward asks how likely replies are. Sampling whole steps batches more groups together, so this is rather too long than too short. */
export async function planTime(
  project: Pick<Project, "agent" | "environment" | "reward">,
  config: TrainingConfig,
): Promise<{ time: TimePlan; groups: TrajectoryGroup[]; asksScores: boolean }> {
  const scenario = project.environment.scenarios[0]!;
  const report = emptyReport();
  const startedAt = performance.now();
  const scorer = scorerOf(project.agent);
  const rollout = environmentRollout({ ...project, settings: config, learn: true, scorer });
  const request = { id: "plan", scenario, size: config.groupSize, seed: seedOf(config.seed, "plan") };
  const groups = await sampleGroups(rollout, [request], { report, minimum: 1 });
  const asksScores = scorer?.asked === true;
  await scorer?.close();
  if (noneCameThrough(report)) throw allFailed(report, "the group that was tried");
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
  const time = {
    tokensPerSecond: report.sampledTokens / ((sampledAt - startedAt) / 1000),
    tokensPerReply: report.sampledTokens / Math.max(1, report.replies),
    rolloutMsPerStep,
    updateMsPerStep,
    totalMs: config.steps * (rolloutMsPerStep + updateMsPerStep),
  };
  return { time, groups, asksScores };
}

export interface DiskNeeds {
  model: Pick<ModelInfo, "trainableParameters" | "moments">;
  /** Played for the plan; the others are taken to be of its size. */
  groups: readonly TrajectoryGroup[];
  /** Whether the run keeps a reference and a value head. */
  reference: boolean;
  values: boolean;
  /** Held-out scenarios: what evaluates chooses a best step, and its conversations are written. */
  heldOut: number;
}

export function planDisk(config: TrainingConfig, needs: DiskNeeds): DiskPlan {
  const { model, reference, heldOut, groups } = needs;
  const { steps, checkpoint: own, evaluation, trajectories: wanted } = config;
  const { weights, moments } = storedBytes(model);
  const checkpoint = weights + moments + (reference ? weights : 0);
  const due = own.every > 0 ? Math.ceil(steps / own.every) : 1;
  const better = heldOut > 0 && evaluation.every > 0 ? Math.ceil(steps / evaluation.every) : 0;
  const checkpoints = Math.min(due + better, own.keep + (better > 0 ? 1 : 0));
  const recorded = wanted.every > 0 ? Math.ceil(steps / wanted.every) : 0;
  const groupsEach = Math.min(wanted.perStep, config.groupsPerStep * config.accumulation);
  const played = groups.reduce((sum, group) => sum + group.trajectories.length, 0);
  // Half of them choose, before the first step as well; the others are asked before and after.
  const scenarios = Math.min(mostScenarios, Math.ceil(heldOut / 2)) * (better > 0 ? better + 3 : 2);
  const evaluated = recorded > 0 && heldOut > 0 ? scenarios * (evaluation.samples / played) : 0;
  const trajectories =
    recorded * groupsEach * bytesOfGroup(needs, wanted.tokens) + Math.ceil(evaluated * bytesOfGroup(needs, false));
  const total = checkpoints * checkpoint + weights + trajectories;
  return { checkpoint, checkpoints, final: weights, trajectories, total };
}

/** What files of it take: the weights that are trained, and AdamW's two moments of them. */
export function storedBytes({ trainableParameters, moments }: Pick<ModelInfo, "trainableParameters" | "moments">) {
  return { weights: 4 * trainableParameters, moments: (moments === "bf16" ? 4 : 8) * trainableParameters };
}

function bytesOfGroup({ groups, reference, values }: DiskNeeds, tokens: boolean): number {
  const conversations = groups.flatMap(({ id: group, trajectories }) =>
    trajectories.map((trajectory) => {
      const { chains } = trajectory;
      const numbers = new Float32Array(chains.reduce((sum, chain) => sum + learnCount(chain), 0));
      const after = { advantage: numbers, ratio: numbers, entropy: numbers };
      const learnt = { ...after, ...(reference && { reference: numbers }), ...(values && { value: numbers }) };
      return { record: toConversationRecord(trajectory, { group, step: 1 }), chains, learnt };
    }),
  );
  const { lines, tokens: numbers } = encodeStep(conversations, { tokens });
  return Buffer.byteLength(lines) + (numbers?.length ?? 0);
}
