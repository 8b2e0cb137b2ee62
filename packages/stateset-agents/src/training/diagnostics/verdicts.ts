import type { Verdict } from "../../run/event.ts";
import type { StepSignals } from "./signals.ts";

/** A verdict before anyone knows for how long it has held. */
export type Finding = Omit<Verdict, "step">;

export interface Evidence {
  now: StepSignals;
  /** The first step: conversations of the policy before it learnt anything. */
  start: StepSignals;
  /** Up to `window` steps before this one, oldest first. */
  recent: readonly StepSignals[];
}

type Rule = (evidence: Evidence) => Finding | undefined;

const percent = (share: number) => `${Math.round(share * 100)}%`;
const number = (value: number) => (Math.abs(value) >= 0.01 || value === 0 ? value.toFixed(2) : value.toExponential(1));

/** The policy says the same whatever it is asked: it can no longer explore, so it can no longer learn. */
const collapse: Rule = ({ now, start }) => {
  const lowEntropy = start.entropy > 0.05 && now.entropy < 0.25 * start.entropy;
  const oneVoice = now.sameReplyShare > 0.8 && start.sameReplyShare < 0.5;
  if (!lowEntropy && !oneVoice) return undefined;
  const signs = [
    lowEntropy ? `entropy fell from ${number(start.entropy)} to ${number(now.entropy)} nats per token` : undefined,
    oneVoice ? `${percent(now.sameReplyShare)} of replies repeat another of their group word for word` : undefined,
  ].filter((sign) => sign !== undefined);
  return {
    kind: "collapse",
    severity: "critical",
    message: `The policy is collapsing: ${signs.join(" and ")}.`,
    advice:
      "Go back to an earlier checkpoint, lower the learning rate, and raise the KL coefficient or the sampling temperature.",
  };
};

/** Updates carry the policy away from anything sensible. */
const divergence: Rule = ({ now, start, recent }) => {
  const signs: string[] = [];
  if (now.gradNorm !== null && !Number.isFinite(now.gradNorm)) signs.push("the gradient is not finite");
  if (now.entropy > 2 * start.entropy + 0.5) {
    signs.push(`entropy rose from ${number(start.entropy)} to ${number(now.entropy)} nats per token`);
  }
  if (now.approxKl !== null && now.approxKl > 0.2)
    signs.push(`one step moved the policy by a KL of ${number(now.approxKl)} per token`);
  // Far away is a place one may stay at; it is moving further away that is diverging.
  const klBefore = median(recent.map(({ kl }) => kl).filter((kl) => kl !== null));
  if (now.kl !== null && now.kl > 1 && now.kl > 1.1 * klBefore)
    signs.push(`the KL to the reference is ${number(now.kl)} per token`);
  const before = median(
    recent.map((step) => step.gradNorm).filter((norm) => norm !== null && Number.isFinite(norm)) as number[],
  );
  if (recent.length >= 5 && now.gradNorm !== null && before > 0 && now.gradNorm > 20 * before) {
    signs.push(`the gradient norm jumped to ${number(now.gradNorm)} from a median of ${number(before)}`);
  }
  const worse = rewardChange(now, start) < -3;
  if (worse && recent.length >= 2) {
    signs.push(`the reward fell from ${number(start.rewardMean)} to ${number(now.rewardMean)}`);
  }
  if (signs.length === 0) return undefined;
  return {
    kind: "divergence",
    severity: worse || signs.length > 1 || signs[0]!.includes("finite") ? "critical" : "warning",
    message: `The run is diverging: ${signs.join(", ")}.`,
    advice: "Lower the learning rate (a third of it is a good next try), clip harder, or raise the KL coefficient.",
  };
};

/** The number goes up while the text gets worse by signs the reward does not look at. */
const rewardHacking: Rule = ({ now, start }) => {
  if (rewardChange(now, start) < 3) return undefined;
  const signs: string[] = [];
  if (now.repeatedTextShare > start.repeatedTextShare + 0.15) {
    signs.push(
      `${percent(now.repeatedTextShare)} of the text repeats itself (at the start ${percent(start.repeatedTextShare)})`,
    );
  }
  const drift = now.replyTokens / Math.max(1, start.replyTokens);
  if ((drift > 1.6 || drift < 0.4) && Math.abs(now.lengthCorrelation ?? 0) > 0.5) {
    signs.push(
      `replies went from ${start.replyTokens.toFixed(0)} to ${now.replyTokens.toFixed(0)} tokens and the reward follows their length (r = ${number(now.lengthCorrelation!)})`,
    );
  }
  if (now.sameReplyShare > start.sameReplyShare + 0.4) {
    signs.push(`${percent(now.sameReplyShare)} of replies are the same within their group`);
  }
  for (const [name, value] of Object.entries(now.parts)) {
    const was = start.parts[name];
    if (was !== undefined && was > 0.05 && value < 0.6 * was)
      signs.push(`the part "${name}" fell from ${number(was)} to ${number(value)}`);
  }
  if (signs.length === 0) return undefined;
  return {
    kind: "reward-hacking",
    severity: "warning",
    message: `The reward rose from ${number(start.rewardMean)} to ${number(now.rewardMean)}, but ${signs.join("; ")}: the policy may be gaming the reward.`,
    advice:
      "Read some conversations of this step. Add a reward part against what you see (repetition, length), or raise the KL coefficient.",
  };
};

const noSignal: Rule = ({ now }) => {
  if (now.zeroVarianceShare < 0.8) return undefined;
  return {
    kind: "no-signal",
    severity: "warning",
    message: `In ${percent(now.zeroVarianceShare)} of groups every conversation got the same reward: there is nothing to learn from them.`,
    advice:
      "Use a reward with finer steps, scenarios that are neither trivial nor hopeless, larger groups or a higher temperature.",
  };
};

const lengthDrift: Rule = ({ now, start }) => {
  const drift = now.replyTokens / Math.max(1, start.replyTokens);
  if (drift < 2 && drift > 0.4) return undefined;
  return {
    kind: "length-drift",
    severity: "note",
    message: `Replies went from ${start.replyTokens.toFixed(0)} to ${now.replyTokens.toFixed(0)} tokens on average.`,
    advice:
      "If that is not what the reward asks for, add a length part, or use an algorithm without length bias (Dr. GRPO, DAPO).",
  };
};

const repetition: Rule = ({ now, start }) => {
  if (now.repeatedTextShare < Math.max(0.3, start.repeatedTextShare + 0.2)) return undefined;
  return {
    kind: "repetition",
    severity: "warning",
    message: `${percent(now.repeatedTextShare)} of the text inside replies repeats itself (at the start ${percent(start.repeatedTextShare)}).`,
    advice: "Penalise repetition in the reward, lower the learning rate, or raise the KL coefficient.",
  };
};

export const rules: readonly Rule[] = [collapse, divergence, rewardHacking, noSignal, lengthDrift, repetition];

/** The change of the mean reward since the start, in standard errors of the two steps. */
function rewardChange(now: StepSignals, start: StepSignals): number {
  const error = Math.hypot(
    now.rewardSpread / Math.sqrt(Math.max(1, now.conversations)),
    start.rewardSpread / Math.sqrt(Math.max(1, start.conversations)),
  );
  return (now.rewardMean - start.rewardMean) / Math.max(error, 1e-9);
}

function median(values: readonly number[]): number {
  if (values.length === 0) return 0;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)]!;
}
