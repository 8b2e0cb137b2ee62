import { mean } from "../../evaluation/estimate.ts";
import type { Verdict } from "../../run/event.ts";
import type { Progress, RewardRange } from "./progress.ts";
import type { StepSignals } from "./signals.ts";

/** A verdict before anyone knows for how long it has held. */
export interface Finding extends Omit<Verdict, "step"> {
  /** Beyond doubt: it is said at once instead of waiting for a second step. */
  sure?: boolean;
}

export interface Evidence {
  now: StepSignals;
  /** The first step: conversations of the policy before it learnt anything. */
  start: StepSignals;
  /** Up to `window` steps before this one, oldest first. */
  recent: readonly StepSignals[];
  progress: Progress;
  /** What conversations have got in the run. */
  range: RewardRange | null;
  /** Mean rewards on held-out scenarios, first and last, with the ends of their intervals where there are any. */
  heldOut: { first: HeldOutReward; last: HeldOutReward } | null;
}

export interface HeldOutReward {
  mean: number;
  low?: number | undefined;
  high?: number | undefined;
}

type Rule = (evidence: Evidence) => Finding | undefined;

const percent = (share: number) => `${Math.round(share * 100)}%`;
const number = (value: number) => (Math.abs(value) >= 0.01 || value === 0 ? value.toFixed(2) : value.toExponential(1));
const over = ({ now, recent }: Evidence, steps: number, of: (signals: StepSignals) => number | null): number =>
  mean([...recent, now].slice(-steps).flatMap((signals) => of(signals) ?? []));

/** A task with one right answer ends in certainty and, where it is the same answer for all, in copies: that is success, and the reward shows it. */
const succeeding = ({ atBest, rise }: Progress) => atBest && rise > 2;

/** The policy says the same whatever it is asked: it can no longer explore, so it can no longer learn. */
const collapse: Rule = (evidence) => {
  const { now, start, progress } = evidence;
  if (succeeding(progress)) return undefined;
  const entropy = over(evidence, 2, (signals) => signals.entropy);
  // Certainty is one's end only where it leaves nothing to compare.
  const stuck = over(evidence, 2, (signals) => unsolvedShare(signals, evidence.range));
  const lowEntropy = start.entropy > 0.05 && entropy < 0.2 * start.entropy && stuck > 0.5;
  const shared = over(evidence, 2, (signals) => signals.sharedReplyShare);
  const oneVoice = shared > 0.7 && shared > (start.sharedReplyShare ?? 0) + 0.4;
  if (!lowEntropy && !oneVoice) return undefined;
  const signs = [
    lowEntropy ? `entropy fell from ${number(start.entropy)} to ${number(now.entropy)} nats per token` : undefined,
    oneVoice ? `${percent(shared)} of replies are given to other scenarios as well, word for word` : undefined,
  ].filter((sign) => sign !== undefined);
  return {
    kind: "collapse",
    severity: "critical",
    message: `The policy is collapsing: ${signs.join(" and ")}, and the reward is not the better for it.`,
    advice:
      "Go back to an earlier checkpoint, lower the learning rate, and raise the KL coefficient or the sampling temperature.",
  };
};

/** Text so close to random that no reward can be learnt from it: a temperature too high, or weights that are gone. */
const noise: Rule = ({ now }) => {
  if (now.entropyShare === null || now.entropyShare < 0.6) return undefined;
  return {
    kind: "noise",
    severity: "critical",
    sure: true,
    message: `Replies are nearly random text: ${number(now.entropy)} nats per token of at most ${number(now.entropy / now.entropyShare)}.`,
    advice:
      "Sample at a temperature of 1 or below. If it is there already, the weights are gone: go back to an earlier checkpoint with a lower learning rate.",
  };
};

/** Nats a token by which no single step should move a policy: healthy runs of the starter model move by 0.001 to 0.1. */
export const leap = 1;

/** Updates carry the policy away from anything sensible. */
const divergence: Rule = (evidence) => {
  const { now, start, recent, progress } = evidence;
  const signs: string[] = [];
  const leapt = now.undone || (now.approxKl !== null && now.approxKl > leap);
  if (now.notFinite > (recent.at(-1)?.notFinite ?? 0)) signs.push("an update was skipped because it was not finite");
  if (now.undone && now.approxKl === null) signs.push("one step moved the policy beyond measure and was taken back");
  if (now.approxKl !== null && now.approxKl > leap / 2)
    signs.push(
      `one step moved the policy by a KL of ${number(now.approxKl)} per token${now.undone ? " and was taken back" : ""}`,
    );
  if (!succeeding(progress)) {
    const entropy = over(evidence, 2, (signals) => signals.entropy);
    if (entropy > 2 * start.entropy + 1.5)
      signs.push(`entropy rose from ${number(start.entropy)} to ${number(entropy)} nats per token`);
    // Far away is a place one may stay at; it is moving further away that is diverging.
    const klBefore = median(recent.map(({ kl }) => kl).filter((kl) => kl !== null));
    if (now.kl !== null && now.kl > 1 && now.kl > 1.1 * klBefore)
      signs.push(`the KL to the reference is ${number(now.kl)} per token`);
  }
  const worse = recent.length >= 2 && progress.rise < -4;
  if (worse) signs.push(`the reward fell from ${number(start.reward.mean)} to ${number(progress.level)}`);
  if (signs.length === 0) return undefined;
  return {
    kind: "divergence",
    severity: worse || leapt || signs.length > 1 ? "critical" : "warning",
    sure: leapt,
    message: `The run is diverging: ${signs.join(", ")}.`,
    advice: "Lower the learning rate (a third of it is a good next try), clip harder, or raise the KL coefficient.",
  };
};

/** Steps of value learning that a critic is given before it is judged, and those it is judged by. */
const criticWarmup = 5;
const criticSteps = 4;

/** A value head that predicts worse than a constant makes advantages of noise. Healthy ones of short runs stay above -0.15. Where all is well rewarded there is no variance to explain. */
const critic: Rule = ({ now, recent, range }) => {
  const varies = ({ rewardSpread }: StepSignals) => range !== null && rewardSpread > 0.1 * (range.high - range.low);
  const seen = [...recent, now].filter(varies).flatMap(({ explainedVariance }) => explainedVariance ?? []);
  const last = seen.slice(criticWarmup).slice(-criticSteps);
  if (now.explainedVariance === null || last.length < criticSteps || Math.max(...last) > -0.3) return undefined;
  return {
    kind: "critic",
    severity: "warning",
    sure: true,
    message: `The critic is worse than a constant: its explained variance was ${number(mean(last))} over the last ${criticSteps} steps, where 0 is a constant and 1 is perfect.`,
    advice:
      "Lower valueLearningRate, give it more steps of warm-up, or use an algorithm without a critic (grpo, rloo, gspo).",
  };
};

/** The number goes up while the text gets worse by signs the reward does not look at. */
const rewardHacking: Rule = (evidence) => {
  const { now, start, progress, heldOut } = evidence;
  if (Math.max(progress.rise, progress.riseNow) < 3) return undefined;
  const signs: string[] = [];
  let sure = false;
  const more = (of: (signals: StepSignals) => number) => of(now) - of(start);
  if (isRepetitive(now, start)) {
    const [share, was] = repetitionOf(now, start);
    signs.push(`${percent(share)} of the text repeats itself (at the start ${percent(was)})`);
    sure = share > was + 0.25;
  }
  if (more(({ cutShare }) => cutShare) > 0.4 && now.replyTokens > 1.2 * start.replyTokens) {
    signs.push(
      `${percent(now.cutShare)} of conversations run into the token limit (at the start ${percent(start.cutShare)})`,
    );
  }
  if (more(({ emptyShare }) => emptyShare) > 0.3) signs.push(`${percent(now.emptyShare)} of replies have no word`);
  for (const [name, { mean: value, error }] of Object.entries(now.parts)) {
    const was = start.parts[name];
    if (was === undefined || was.mean < 0.05 || value > 0.5 * was.mean) continue;
    if (was.mean - value > 3 * Math.hypot(error, was.error))
      signs.push(`the part "${name}" fell from ${number(was.mean)} to ${number(value)}`);
  }
  if (heldOut && (heldOut.last.high ?? heldOut.last.mean) < (heldOut.first.low ?? heldOut.first.mean)) {
    signs.push(`the held-out reward fell from ${number(heldOut.first.mean)} to ${number(heldOut.last.mean)}`);
  }
  if (signs.length === 0) return undefined;
  return {
    kind: "reward-hacking",
    severity: "warning",
    sure,
    message: `The reward rose from ${number(start.reward.mean)} to ${number(now.reward.mean)}, but ${signs.join("; ")}: the policy may be gaming the reward.`,
    advice:
      "Read some conversations of this step. Add a reward part against what you see (repetition, length), or raise the KL coefficient.",
  };
};

/** The measure that grew most: whole sequences, or single words in ever new order. */
function repetitionOf(now: StepSignals, start: StepSignals): [now: number, start: number] {
  const text = [now.repeatedTextShare, start.repeatedTextShare] as [number, number];
  const words = [now.repeatedWordShare, start.repeatedWordShare] as [number, number];
  return words[0] - words[1] > text[0] - text[1] ? words : text;
}

/** Long replies repeat words by themselves, sequences they do not. */
function isRepetitive(now: StepSignals, start: StepSignals): boolean {
  return (
    now.repeatedTextShare > start.repeatedTextShare + 0.15 || now.repeatedWordShare > start.repeatedWordShare + 0.25
  );
}

/** Groups that are all alike at the best reward are solved; all others that are alike were sampled for nothing. */
const noSignal: Rule = ({ now, range }) => {
  const share = unsolvedShare(now, range);
  if (share < 0.8) return undefined;
  return {
    kind: "no-signal",
    severity: "warning",
    message: `In ${percent(share)} of groups every conversation got the same reward: there is nothing to learn from them.`,
    advice:
      "Use a reward with finer steps, scenarios that are neither trivial nor hopeless, larger groups or a higher temperature.",
  };
};

const lengthDrift: Rule = (evidence) => {
  const { start, progress } = evidence;
  if (succeeding(progress)) return undefined;
  const tokens = over(evidence, 2, ({ replyTokens }) => replyTokens);
  const drift = tokens / Math.max(1, start.replyTokens);
  if (drift < 2 && drift > 0.4) return undefined;
  return {
    kind: "length-drift",
    severity: "note",
    message: `Replies went from ${start.replyTokens.toFixed(0)} to ${tokens.toFixed(0)} tokens on average, and the reward is not the better for it.`,
    advice:
      "If that is not what the reward asks for, add a length part, or use an algorithm without length bias (Dr. GRPO, DAPO).",
  };
};

/** With a reward that rises it is reward hacking, which says the same and more. */
const repetition: Rule = ({ now, start, progress }) => {
  if (!isRepetitive(now, start) || progress.rise >= 3) return undefined;
  const [share, was] = repetitionOf(now, start);
  return {
    kind: "repetition",
    severity: "warning",
    message: `${percent(share)} of the text inside replies repeats itself (at the start ${percent(was)}).`,
    advice: "Penalise repetition in the reward, lower the learning rate, or raise the KL coefficient.",
  };
};

export const rules: readonly Rule[] = [
  noise,
  collapse,
  divergence,
  critic,
  rewardHacking,
  noSignal,
  lengthDrift,
  repetition,
];

export function isFlat(rewards: readonly number[]): boolean {
  return rewards.every((reward) => Math.abs(reward - rewards[0]!) < 1e-9);
}

/** Of groups, those that are all alike and not at the best reward. */
function unsolvedShare({ scenarios }: StepSignals, range: RewardRange | null): number {
  const flat = scenarios.filter(({ rewards }) => isFlat(rewards) && !isSolved(rewards, range));
  return flat.length / Math.max(1, scenarios.length);
}

/** Rewards have no fixed scale, so "best" is the upper fifth of what the run has seen. */
function isSolved(rewards: readonly number[], range: RewardRange | null): boolean {
  return range !== null && range.high > range.low && placeIn(range, mean(rewards)) > 0.8;
}

/** 0 at the worst reward of the run, 1 at the best. */
export function placeIn({ low, high }: RewardRange, reward: number): number {
  return high === low ? 0.5 : (reward - low) / (high - low);
}

function median(values: readonly number[]): number {
  if (values.length === 0) return 0;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)]!;
}
