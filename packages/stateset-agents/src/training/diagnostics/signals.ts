import { measuredParts } from "../../conversation/part-failures.ts";
import { isCut, isReply, type Trajectory, type TrajectoryGroup } from "../../conversation/trajectory.ts";
import { mean, standardDeviation } from "../../evaluation/estimate.ts";
import type { Metrics } from "../../run/metrics.ts";
import { repeatedShare, repeatedWordShare, sharedTextShare } from "./text.ts";

/** What the monitor looks at: one step, as `StepEnd` of the training callbacks has it. */
export interface StepObservation {
  step: number;
  /** Reads `entropy`, `kl`, `approxKl`, `undone`, `explainedVariance` and `notFinite` where they are there. */
  metrics: Readonly<Metrics>;
  groups: readonly TrajectoryGroup[];
  /** Tokens the policy can choose from: text of nearly ln(vocabulary) nats a token is noise. */
  vocabulary?: number | undefined;
}

/** A mean and the standard error of it. */
export interface Measured {
  mean: number;
  error: number;
}

/** What one scenario's conversations of the step got. */
export interface ScenarioVisit {
  id: string;
  rewards: number[];
  /** Those that broke their environment. */
  failed: number;
}

/** One step in a handful of numbers. Plain data: the monitor's history goes into checkpoints. */
export interface StepSignals {
  step: number;
  /** Over groups: conversations of one scenario are alike. */
  reward: Measured;
  /** Standard deviation over all conversations. */
  rewardSpread: number;
  /** Nats per sampled token, estimated as −log p of what was sampled. */
  entropy: number;
  /** Of the most it could be; null where the vocabulary is unknown or no more than an alphabet. */
  entropyShare: number | null;
  /** Against the reference, per token; null when the run has none. */
  kl: number | null;
  /** How far the step moved the policy, per token. */
  approxKl: number | null;
  /** It was too far, and the step was taken back. */
  undone: boolean;
  explainedVariance: number | null;
  /** Updates skipped so far because something was not finite. */
  notFinite: number;
  /** Sampled tokens per reply. */
  replyTokens: number;
  /** Of conversations with a reply cut at the token limit. */
  cutShare: number;
  /** Of replies without a single word. */
  emptyShare: number;
  /** Of three-word sequences inside replies that the same reply had before. */
  repeatedTextShare: number;
  /** Of words inside replies that the same reply had before. */
  repeatedWordShare: number;
  /** Of first replies that a user who said something else got as well, word for word; null where all said the same. */
  sharedReplyShare: number | null;
  parts: Record<string, Measured>;
  /** Those with several conversations. */
  scenarios: ScenarioVisit[];
}

/** Below it a token is a letter or a toy's word, and sensible text may well be near the most entropy there is. */
const leastVocabulary = 1000;

/** Reduces one step to its signals. Pure. */
export function readSignals({ step, metrics, groups, vocabulary }: StepObservation): StepSignals {
  const conversations = groups.flatMap((group) => group.trajectories);
  const replies = conversations.flatMap(repliesOf);
  const entropy = metrics.entropy ?? sampledEntropy(conversations);
  const partNames = [...new Set(conversations.flatMap(({ reward }) => Object.keys(measuredParts(reward))))].sort();
  const firstReplies = new Map<string, string[]>();
  for (const { scenarioId, trajectories } of groups) {
    // Those who say the same may well be answered the same.
    const said = trajectories[0]?.turns.find(({ role }) => role === "user")?.content ?? scenarioId;
    firstReplies.set(said, [...(firstReplies.get(said) ?? []), ...trajectories.map(firstReply)]);
  }
  return {
    step,
    reward: overGroups(groups, ({ reward }) => reward.score),
    rewardSpread: standardDeviation(conversations.map(({ reward }) => reward.score)),
    entropy,
    entropyShare: vocabulary === undefined || vocabulary < leastVocabulary ? null : entropy / Math.log(vocabulary),
    kl: metrics.kl ?? null,
    approxKl: metrics.approxKl ?? null,
    undone: metrics.undone === 1,
    explainedVariance: metrics.explainedVariance ?? null,
    notFinite: metrics.notFinite ?? 0,
    replyTokens: orZero(mean(conversations.map(tokensPerReply))),
    cutShare: orZero(mean(conversations.map((one) => (isCut(one) ? 1 : 0)))),
    emptyShare: orZero(mean(conversations.map((one) => (/[\p{L}\p{N}]/u.test(firstReply(one)) ? 0 : 1)))),
    repeatedTextShare: orZero(mean(replies.map(repeatedShare))),
    repeatedWordShare: orZero(mean(replies.map(repeatedWordShare))),
    sharedReplyShare: sharedTextShare([...firstReplies.values()]),
    parts: Object.fromEntries(
      partNames.map((name) => [name, overGroups(groups, ({ reward }) => measuredParts(reward)[name])]),
    ),
    scenarios: groups
      .filter(({ trajectories }) => trajectories.length > 1)
      .map(({ scenarioId, trajectories }) => {
        const whole = trajectories.filter(({ ended }) => ended !== "failed");
        return {
          id: scenarioId,
          rewards: whole.map(({ reward }) => reward.score),
          failed: trajectories.length - whole.length,
        };
      }),
  };
}

/** The mean of what conversations say; its error from how group means and, where that is more, single conversations differ. */
function overGroups(groups: readonly TrajectoryGroup[], of: (one: Trajectory) => number | undefined): Measured {
  const values = groups.map(({ trajectories }) => trajectories.map(of).filter((value) => value !== undefined));
  const all = values.flat();
  if (all.length === 0) return { mean: 0, error: 0 };
  const means = values.filter((own) => own.length > 0).map((own) => mean(own));
  const between = means.length > 1 ? standardDeviation(means) / Math.sqrt(means.length) : 0;
  return { mean: mean(all), error: Math.max(between, standardDeviation(all) / Math.sqrt(all.length)) };
}

/** For steps whose metrics say nothing of it: a stub's, or another learner's. */
function sampledEntropy(conversations: readonly Trajectory[]): number {
  let [sum, count] = [0, 0];
  for (const { chains } of conversations) {
    for (const { logprobs, learn } of chains) {
      for (let i = 0; i < learn.length; i++) {
        if (learn[i] !== 1) continue;
        sum -= logprobs[i]!;
        count++;
      }
    }
  }
  return count === 0 ? 0 : sum / count;
}

function tokensPerReply(trajectory: Trajectory): number {
  let tokens = 0;
  for (const { learn } of trajectory.chains) for (const bit of learn) tokens += bit;
  return tokens / Math.max(1, repliesOf(trajectory).length);
}

function repliesOf(trajectory: Trajectory): string[] {
  return trajectory.turns.filter(isReply).map((turn) => turn.content);
}

/** As it was sampled: a tool call has no other text. */
function firstReply({ turns }: Trajectory): string {
  const first = turns.find(isReply);
  return first?.sampled?.text ?? first?.content ?? "";
}

function orZero(value: number): number {
  return Number.isNaN(value) ? 0 : value;
}
