import type { Trajectory, TrajectoryGroup } from "../../conversation/trajectory.ts";
import { mean, standardDeviation } from "../../evaluation/estimate.ts";
import type { Metrics } from "../../run/metrics.ts";
import { repeatedShare, sameTextShare } from "./text.ts";

/** What the monitor looks at: one step, as `StepEnd` of the training callbacks has it. */
export interface StepObservation {
  step: number;
  /** Reads `gradNorm`, `kl`, `approxKl`, `entropy` and `clipFraction` where they are there. */
  metrics: Readonly<Metrics>;
  groups: readonly TrajectoryGroup[];
}

/** One step in a handful of numbers. Plain data: the monitor's history goes into checkpoints. */
export interface StepSignals {
  step: number;
  conversations: number;
  rewardMean: number;
  /** Standard deviation over all conversations of the step. */
  rewardSpread: number;
  /** Of groups in which every conversation got the same reward: they teach a group-relative algorithm nothing. */
  zeroVarianceShare: number;
  /** Nats per sampled token: the engine's exact mean where the run computes it, else estimated as -log p of what was sampled. */
  entropy: number;
  /** Against the reference, per token; null when the run has none. */
  kl: number | null;
  /** Against the policy that sampled, per token. */
  approxKl: number | null;
  clipFraction: number | null;
  gradNorm: number | null;
  /** Sampled tokens per reply. */
  replyTokens: number;
  /** Of three-word sequences inside replies that the same reply had before. */
  repeatedTextShare: number;
  /** Of replies that another conversation of the group has word for word (first replies only). */
  sameReplyShare: number;
  /** Pearson correlation of reward and reply length over the step's conversations; null when either is constant. */
  lengthCorrelation: number | null;
  /** Mean of each reward part. */
  parts: Record<string, number>;
  /** Correlation of each pair of parts, keyed "a~b". Pairs with a constant part are left out. */
  partCorrelations: Record<string, number>;
  scenarios: { id: string; mean: number; spread: number }[];
}

/** Reduces one step to its signals. Pure. */
export function readSignals({ step, metrics, groups }: StepObservation): StepSignals {
  const conversations = groups.flatMap((group) => group.trajectories);
  // One conversation alone has nothing to vary against.
  const several = groups.filter((group) => group.trajectories.length > 1);
  const rewards = conversations.map((trajectory) => trajectory.reward.score);
  const lengths = conversations.map(tokensPerReply);
  const partNames = [
    ...new Set(conversations.flatMap((trajectory) => Object.keys(trajectory.reward.breakdown))),
  ].sort();
  const partValues = new Map(
    partNames.map((name) => [name, conversations.map((trajectory) => trajectory.reward.breakdown[name] ?? 0)]),
  );
  const replies = conversations.flatMap((trajectory) => repliesOf(trajectory));
  return {
    step,
    conversations: conversations.length,
    rewardMean: orZero(mean(rewards)),
    rewardSpread: standardDeviation(rewards),
    zeroVarianceShare: orZero(mean(several.map((group) => (isConstant(scoresOf(group)) ? 1 : 0)))),
    entropy: metrics.entropy ?? sampledEntropy(conversations),
    kl: metrics.kl ?? null,
    approxKl: metrics.approxKl ?? null,
    clipFraction: metrics.clipFraction ?? null,
    gradNorm: metrics.gradNorm ?? null,
    replyTokens: orZero(mean(lengths)),
    repeatedTextShare: orZero(mean(replies.map(repeatedShare))),
    sameReplyShare: orZero(
      mean(groups.map((group) => sameTextShare(group.trajectories.map((t) => repliesOf(t)[0] ?? "")))),
    ),
    lengthCorrelation: correlation(rewards, lengths),
    parts: Object.fromEntries([...partValues].map(([name, values]) => [name, orZero(mean(values))])),
    partCorrelations: pairCorrelations(partNames, partValues),
    scenarios: several.map((group) => ({
      id: group.scenarioId,
      mean: orZero(mean(scoresOf(group))),
      spread: standardDeviation(scoresOf(group)),
    })),
  };
}

/** Pearson's r; null when either side does not vary. */
export function correlation(a: readonly number[], b: readonly number[]): number | null {
  const ma = mean(a);
  const mb = mean(b);
  let [ab, aa, bb] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    const da = a[i]! - ma;
    const db = b[i]! - mb;
    ab += da * db;
    aa += da * da;
    bb += db * db;
  }
  return aa < 1e-18 || bb < 1e-18 ? null : ab / Math.sqrt(aa * bb);
}

function pairCorrelations(names: readonly string[], values: ReadonlyMap<string, number[]>): Record<string, number> {
  const result: Record<string, number> = {};
  for (const [i, a] of names.entries()) {
    for (const b of names.slice(i + 1)) {
      const r = correlation(values.get(a)!, values.get(b)!);
      if (r !== null) result[`${a}~${b}`] = r;
    }
  }
  return result;
}

/** E[-log p] over sampled tokens is the policy's entropy, so sampling itself estimates it. */
function sampledEntropy(conversations: readonly Trajectory[]): number {
  let sum = 0;
  let count = 0;
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
  return trajectory.turns.filter((turn) => turn.role === "assistant").map((turn) => turn.content);
}

function scoresOf(group: TrajectoryGroup): number[] {
  return group.trajectories.map((trajectory) => trajectory.reward.score);
}

function isConstant(values: readonly number[]): boolean {
  return values.every((value) => Math.abs(value - values[0]!) < 1e-9);
}

function orZero(value: number): number {
  return Number.isNaN(value) ? 0 : value;
}
