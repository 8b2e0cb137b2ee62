/**
 * What becomes of a conversation's reward before advantages, in this order:
 *   normalise  r ← (r − μ) / (σ + 1e-8), μ and unbiased σ of the step's conversations ("batch") or of all of the run so far, these
 *              included ("run", Welford's moments); where σ is 0 or there is one reward, only μ is taken off
 *   clip       r ← min(clipHigh, max(clipLow, r))
 *   overlong   r ← r + penalty · overlongPenalty(reply), then the algorithm's own shapeReward()
 * Metrics and records keep the reward as it was given, and so does `givenReward`.
 */
import { z } from "zod";
import { sharedStates } from "../algorithm/advantage/state-credit.ts";
import { overlongPenalty } from "../algorithm/overlong.ts";
import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import { StatesetError } from "../error.ts";
import type { LearnStep } from "./learn.ts";
import type { Learner } from "./learner.ts";
import type { LearningMetrics } from "./metric-table.ts";
import { type ChainSequence, isMasked, sequencesOf } from "./sequence.ts";

export const rewardShapingSchema = z
  .strictObject({
    normalise: z
      .enum(["none", "batch", "run"])
      .default("none")
      .describe(
        "Take the mean off the rewards and divide by their standard deviation: of the step's conversations, or of all of the run so far.",
      ),
    clipLow: z.number().optional().describe("Rewards count as at least this, once normalised. Left out: no bound."),
    clipHigh: z.number().optional().describe("Rewards count as at most this, once normalised. Left out: no bound."),
    overlongPenalty: z
      .number()
      .min(0)
      .default(0)
      .describe(
        "Taken off the reward of a conversation whose longest reply reaches the token limit; less within the buffer before it.",
      ),
    overlongBuffer: z
      .number()
      .gt(0)
      .max(1)
      .default(0.2)
      .describe("Share of the token limit over which the penalty rises."),
  })
  .refine(({ clipLow = -Infinity, clipHigh = Infinity }) => clipLow < clipHigh, {
    message: "must be below clipHigh",
    path: ["clipLow"],
  })
  .prefault({})
  .describe(
    "What becomes of rewards before they are learnt from, in any algorithm. Metrics show them as they were given.",
  );

export type RewardShaping = z.output<typeof rewardShapingSchema>;

/** Count, mean and sum of squared distances from it, of the rewards of a run so far: plain data, for checkpoints. */
export interface RewardMoments {
  count: number;
  mean: number;
  m2: number;
}

export const noMoments = (): RewardMoments => ({ count: 0, mean: 0, m2: 0 });

/** Adds rewards (Welford 1962). */
export function addRewards(moments: RewardMoments, rewards: Iterable<number>): void {
  for (const reward of rewards) {
    moments.count++;
    const off = reward - moments.mean;
    moments.mean += off / moments.count;
    moments.m2 += off * (reward - moments.mean);
  }
}

/** Refuses what the algorithm would not read, or would do twice. */
export function requireShaping({ algorithm, settings }: Pick<Learner, "algorithm" | "settings">): void {
  const { normalise, clipLow, clipHigh, overlongPenalty } = settings.rewardShaping;
  const refuse = (message: string, hint: string) => {
    throw new StatesetError("INVALID_OPTION", `rewardShaping: ${message}`, { hint });
  };
  if (algorithm.shapeReward && overlongPenalty > 0) {
    refuse(
      `${algorithm.name} shapes rewards itself (shapeReward), and overlongPenalty would come on top.`,
      "Leave out rewardShaping.overlongPenalty, or the algorithm's own shaping (DAPO: overlongPenalty 0).",
    );
  }
  if (algorithm.options.rewardWeights && (normalise !== "none" || clipLow !== undefined || clipHigh !== undefined)) {
    refuse(
      "with rewardWeights the parts of the reward are learnt from, each normalised already; the total is not read.",
      "Leave out normalise, clipLow and clipHigh, or rewardWeights.",
    );
  }
}

/** The sequences of a step with their rewards shaped; what is remembered of earlier ones joins its group. */
export function shapedSequences(
  learner: Pick<Learner, "algorithm" | "settings">,
  groups: readonly TrajectoryGroup[],
  { recalled = [], ...step }: Pick<LearnStep, "replyTokens" | "rewardMoments" | "recalled">,
): ChainSequence[] {
  // Beside their groups, with whom they share a beginning.
  const sequences = [...sequencesOf(groups), ...recalled].sort((a, b) => a.group - b.group);
  for (const sequence of sequences) if (isMasked(learner.settings, sequence)) sequence.masked = true;
  shapeRewards(learner, sequences, step);
  return sequences;
}

/** In place. */
export function shapeRewards(
  { algorithm, settings: { rewardShaping: o } }: Pick<Learner, "algorithm" | "settings">,
  sequences: readonly ChainSequence[],
  { replyTokens, rewardMoments = noMoments() }: Pick<LearnStep, "replyTokens" | "rewardMoments">,
): void {
  for (const sequence of sequences) sequence.givenReward = sequence.reward;
  normaliseRewards(sequences, o, rewardMoments);
  for (const sequence of sequences) {
    sequence.reward = Math.min(o.clipHigh ?? Infinity, Math.max(o.clipLow ?? -Infinity, sequence.reward));
    const before = sequence.reward;
    if (o.overlongPenalty > 0) {
      sequence.reward += o.overlongPenalty * overlongPenalty(sequence, replyTokens, o.overlongBuffer);
    }
    if (algorithm.shapeReward) sequence.reward = algorithm.shapeReward(sequence, replyTokens);
    if (o.overlongPenalty > 0 || algorithm.shapeReward) sequence.shaping = sequence.reward - before;
  }
}

function normaliseRewards(
  sequences: readonly ChainSequence[],
  { normalise }: RewardShaping,
  ofRun: RewardMoments,
): void {
  if (normalise === "none") return;
  const moments = normalise === "run" ? ofRun : noMoments();
  // What an earlier step sampled has been counted then.
  addRewards(
    moments,
    sequences.filter(({ recalled }) => !recalled).map(({ reward }) => reward),
  );
  const deviation = moments.count > 1 ? Math.sqrt(moments.m2 / (moments.count - 1)) : 0;
  const scale = deviation > 0 ? 1 / (deviation + 1e-8) : 1;
  for (const sequence of sequences) {
    sequence.reward = (sequence.reward - moments.mean) * scale;
    // They are shares of the reward; what is left of it falls on the end.
    const turns = Object.entries(sequence.turnRewards).map(([turn, reward]) => [turn, reward * scale]);
    sequence.turnRewards = Object.fromEntries(turns);
  }
}

/** What is told of a step's conversations before they are learnt from, each where it has something to tell. */
export function sampledMetrics(
  { algorithm, settings }: Pick<Learner, "algorithm" | "settings">,
  sequences: readonly ChainSequence[],
): LearningMetrics {
  const { normalise, clipLow, clipHigh, overlongPenalty } = settings.rewardShaping;
  const clipped = clipLow !== undefined || clipHigh !== undefined;
  const shaped = normalise !== "none" || clipped || overlongPenalty > 0 || algorithm.shapeReward !== undefined;
  const mean = () => sequences.reduce((sum, { reward }) => sum + reward, 0) / sequences.length;
  return {
    ...(shaped && { shapedReward: mean() }),
    ...(settings.maskFailedCalls && { maskedFailedCalls: sequences.filter((own) => own.callsFailed).length }),
    ...(algorithm.options.credit === "state" && { sharedStates: sharedStates(sequences) }),
  };
}
