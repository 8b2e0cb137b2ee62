/**
 * One step of learning from groups of conversations: rewards → advantages → for each pass and minibatch: forward, loss, backward,
 * optimiser step. The log-probs recorded while sampling are the old log-probs, so that the first importance ratio is exactly 1; scored anew are
 * conversations that are recalled and, once the step is made, a few that show how far it led.
 */
import { meanMetrics, mergeMetrics } from "../algorithm/metrics.ts";
import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import { dealGroups } from "./deal-groups.ts";
import { noteApplied, noteSkipped, type SkippedUpdates, tooManySkipped } from "./finite.ts";
import { type Learner, warmupSteps } from "./learner.ts";
import type { LearntTokens } from "./learnt-tokens.ts";
import { type LearningMetrics, ownNames } from "./metric-table.ts";
import { stepOptions } from "./optimiser.ts";
import { policyMove, sampledEntropy } from "./policy-move.ts";
import { mismatchOf, scoreSequences } from "./score-sequences.ts";
import type { ChainSequence } from "./sequence.ts";
import { type RewardMoments, sampledMetrics, shapedSequences } from "./shape-rewards.ts";
import { chosenAdvantages } from "./token-choice.ts";
import { trustRegionUpdate } from "./trust-region-update.ts";
import { type Batch, type UpdateResult, update } from "./update.ts";

/** What is told of one optimiser step. */
export interface UpdateEvent {
  epoch: number;
  minibatch: number;
  loss: number;
  gradNorm: number;
  /** False when the update was skipped because something was not finite. */
  applied: boolean;
}

/** What changes from step to step. */
export interface LearnStep {
  /** Counted from 1. */
  step: number;
  /** Those of the run: a warm-up may be a share of them. */
  steps: number;
  learningRate: number;
  klCoefficient: number;
  entropyBonus: number;
  /** Shortens the step of a trust region, which has no learning rate. */
  learningRateScale: number;
  /** The limit of one reply, for overlong shaping, and the tokens a conversation may have in all (Dr. GRPO's constant), by the settings. */
  replyTokens: number;
  maxTokens: number;
  skips: SkippedUpdates;
  /** Of the run's rewards so far, for `rewardShaping.normalise: "run"`; those of the step join them. */
  rewardMoments?: RewardMoments;
  /** A step that moves the policy by more than this, in nats a token, is taken back. Left out: none is. */
  undoBeyond?: number | undefined;
  /** Conversations of earlier steps that join the groups they name. */
  recalled?: readonly ChainSequence[];
  /** Where the step is recorded. */
  learnt?: LearntTokens | undefined;
  onUpdate?: (event: UpdateEvent) => Promise<void>;
  /** Told what was not finite. */
  onSkipped?: (what: string) => Promise<void>;
}

/** Moves the policy and returns the metrics of doing so; empty when there was nothing to learn from. */
export async function learn(
  learner: Learner,
  groups: readonly TrajectoryGroup[],
  step: LearnStep,
): Promise<LearningMetrics> {
  const { algorithm, settings } = learner;
  const sequences = shapedSequences(learner, groups, step);
  if (sequences.length === 0) return {};
  const { klCoefficient, entropyBonus, skips, learnt } = step;
  await scoreSequences(learner, sequences, {
    values: algorithm.needs.values === true,
    reference: algorithm.needs.reference === true || klCoefficient > 0,
    entropy: settings.entropyQuantile !== undefined,
    // What another program sampled is scored by the trainer, and the difference corrected for.
    sampled: !learner.policy.capabilities.exact,
  });
  const { advantages, entropyThreshold } = chosenAdvantages(learner, sequences);
  learnt?.begin(sequences, advantages);
  const regularisers = { klCoefficient, klEstimator: settings.kl.estimator, entropyBonus };
  const rates = {
    ...stepOptions(settings, step.learningRate),
    valueLearningRate: (step.learningRate / settings.learningRate) * settings.valueLearningRate,
    scope: step.step <= warmupSteps(algorithm, step.steps) ? ("value" as const) : ("all" as const),
  };
  const useAll = algorithm.usesZeroAdvantages === true || klCoefficient > 0 || entropyBonus > 0;

  const before =
    step.undoBeyond === undefined || rates.scope !== "all" ? undefined : await learner.policy.vector("parameters");
  const metrics = {};
  let last: UpdateResult | undefined;
  let [updates, moved] = [0, false];
  const sampled = sequences.filter((sequence) => !sequence.recalled);
  const recalled = sequences.length - sampled.length;
  const summary: LearningMetrics = {
    learnedConversations: 0,
    entropy: sampledEntropy(sampled),
    ...(entropyThreshold !== undefined && { entropyThreshold }),
    ...(klCoefficient > 0 && { klCoefficient }),
    ...(recalled > 0 && { recalledConversations: recalled }),
    ...sampledMetrics(learner, sampled),
  };
  for (let epoch = 0; epoch < settings.updatesPerRollout; epoch++) {
    for (const [minibatch, dealt] of dealGroups(sequences, settings, step.step, epoch).entries()) {
      const batch = { ...batchOf(sequences, advantages, dealt, { useAll, maxTokens: step.maxTokens }), learnt };
      if (epoch === 0) summary.learnedConversations! += batch.members.length;
      if (batch.members.length === 0 || tooManySkipped(skips)) continue;
      const result = algorithm.trustRegion
        ? await trustRegionUpdate(learner, batch, algorithm.trustRegion, regularisers, step.learningRateScale)
        : await update(learner, batch, regularisers, rates);
      if (last === undefined) summary.firstRatioMax = result.ratioMax;
      last = result;
      updates++;
      mergeMetrics(metrics, result.metrics);
      algorithm.afterUpdate?.(meanMetrics(result.metrics));
      const { loss, gradNorm, skipped } = result;
      if (skipped === undefined) {
        moved = rates.scope === "all";
        noteApplied(skips);
      } else {
        noteSkipped(skips);
        await step.onSkipped?.(skipped);
      }
      await step.onUpdate?.({ epoch, minibatch, loss, gradNorm, applied: skipped === undefined });
    }
  }
  const means = meanMetrics(metrics);
  // What the updates saw is the way there; where it led is measured once they are made.
  delete means.approxKl;
  if (moved) summary.approxKl = await policyMove(learner, sampled);
  // Also where it is no number. The optimiser keeps its moments: what it saw is true.
  if (before && moved && !(summary.approxKl! <= step.undoBeyond!)) {
    await learner.policy.moveTo(before);
    summary.undone = 1;
  }
  before?.release();
  // One update sees only the policy that sampled: where its loss goes by ratios to that one (GEPO's are to the group), nothing can be clipped.
  if (updates === 1 && Math.max(summary.firstRatioMax!, means.ratioMax ?? 1) < 1 + 1e-5) delete means.clipFraction;
  return {
    ...ownNames(means),
    ...summary,
    ...mismatchOf(sequences),
    ...(last && { loss: last.loss, gradNorm: last.gradNorm }),
  };
}

/** The sequences of some groups, and which of them carry gradient. */
function batchOf(
  sequences: readonly ChainSequence[],
  advantages: Batch["advantages"],
  groups: ReadonlySet<number>,
  { useAll, maxTokens }: { useAll: boolean; maxTokens: number },
): Batch {
  const counted = sequences.flatMap(({ group, masked }, i) => (groups.has(group) && !masked ? [i] : []));
  return {
    sequences,
    advantages,
    members: useAll ? counted : counted.filter((i) => advantages[i]!.advantages.some((a) => a !== 0)),
    counts: {
      sequences: counted.length,
      tokens: counted.reduce((sum, i) => sum + sequences[i]!.old.length, 0),
      groups: new Set(counted.map((i) => sequences[i]!.group)).size,
      maxTokens,
    },
  };
}
