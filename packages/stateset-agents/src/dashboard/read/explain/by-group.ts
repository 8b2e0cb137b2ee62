/** Advantages that a group alone decides, one a conversation: group-relative ones, leave-one-out, a baseline. */
import { mean, rewardsOf, standardDeviation } from "../../../algorithm/advantage/batch.ts";
import { groupAdvantages, SCALE_EPSILON, type Scale } from "../../../algorithm/advantage/group.ts";
import { leaveOneOutAdvantages } from "../../../algorithm/advantage/leave-one-out.ts";
import type { Sequence } from "../../../algorithm/algorithm.ts";
import { type Compared, recordedAdvantage } from "./compared.ts";
import { type Explained, listed, show, showIn } from "./why.ts";

/** What the rewards are once the KL penalty is in them. */
function rewardsText(sequences: readonly Sequence[], beta: number): { rewards: number[]; lines: string[] } {
  const rewards = rewardsOf(sequences, beta);
  const penalised = beta > 0 && sequences.some(({ ref }) => ref);
  const lines = penalised
    ? [`r = reward − ${show(beta)}·Σ(log π − log π_ref): ${listed(rewards)}`]
    : [`r: ${listed(rewards)}`];
  return { rewards, lines };
}

const alike = (rewards: readonly number[]) => rewards.every((reward) => reward === rewards[0]);
const arrays = (found: readonly { advantages: Float32Array }[]) => found.map(({ advantages }) => advantages);

export function explainRelative(
  compared: readonly Compared[],
  { scale, beta }: { scale: Scale; beta: number },
): Explained {
  const sequences = compared.map(({ sequence }) => sequence);
  const { rewards, lines } = rewardsText(sequences, beta);
  const centre = mean(rewards);
  const std = standardDeviation(rewards, centre);
  const means = `mean = ${show(centre)}`;
  const constant = alike(rewards)
    ? { note: "All rewards of the group are equal: there is nothing to compare, and every advantage is 0." }
    : {};
  if (scale === "none") {
    return {
      formula: "A_i = r_i − mean(r)",
      lines: [...lines, means],
      members: rewards.map(
        (reward) => `${show(reward)} − ${showIn(centre)} = ${show(alike(rewards) ? 0 : reward - centre)}`,
      ),
      advantages: arrays(groupAdvantages(sequences, { scale, beta })),
      ...constant,
    };
  }
  if (scale === "batch") {
    const divisor = impliedDivisor(compared, rewards, centre);
    const known = divisor === undefined ? "std of the batch" : show(divisor);
    return {
      formula: "A_i = (r_i − mean(r)) / (std of all rewards of the batch + 0.0001)",
      lines: [
        ...lines,
        means,
        ...(divisor === undefined ? [] : [`std of the batch + 0.0001 = ${show(divisor)}, by what was recorded`]),
      ],
      members: rewards.map((reward) => {
        const result = divisor === undefined ? "" : ` = ${show((reward - centre) / divisor)}`;
        return `(${show(reward)} − ${showIn(centre)}) / ${known}${result}`;
      }),
      note: constant.note ?? "The spread is that of the whole batch, of which this group is a part.",
    };
  }
  const divisor = std + SCALE_EPSILON;
  return {
    formula: "A_i = (r_i − mean(r)) / (std(r) + 0.0001), std with n − 1",
    lines: [...lines, means, `std = ${show(std)}`],
    members: rewards.map((reward) => {
      const result = alike(rewards) ? 0 : (reward - centre) / divisor;
      return `(${show(reward)} − ${showIn(centre)}) / (${show(std)} + 0.0001) = ${show(result)}`;
    }),
    advantages: arrays(groupAdvantages(sequences, { scale, beta })),
    ...constant,
  };
}

/** What the group was divided by, from an advantage that is not 0. */
function impliedDivisor(compared: readonly Compared[], rewards: readonly number[], centre: number): number | undefined {
  for (const [i, { member }] of compared.entries()) {
    const own = recordedAdvantage(member)[0];
    if (own !== undefined && own !== 0 && rewards[i] !== centre) return (rewards[i]! - centre) / own;
  }
  return undefined;
}

export function explainLeaveOneOut(compared: readonly Compared[], beta: number): Explained {
  const sequences = compared.map(({ sequence }) => sequence);
  const { rewards, lines } = rewardsText(sequences, beta);
  const sum = rewards.reduce((total, reward) => total + reward, 0);
  const others = rewards.length - 1;
  return {
    formula: "A_i = r_i − mean of the others' r",
    lines: [...lines, `Σ r = ${show(sum)}, n = ${rewards.length}`],
    members: rewards.map((reward) => {
      if (others === 0 || alike(rewards)) return "0: nothing to compare with";
      const rest = (sum - reward) / others;
      return `${show(reward)} − (${show(sum)} − ${showIn(reward)}) / ${others} = ${show(reward)} − ${showIn(rest)} = ${show(reward - rest)}`;
    }),
    advantages: arrays(leaveOneOutAdvantages(sequences, { beta })),
  };
}

export function explainBaseline(compared: readonly Compared[], baseline: string, beta: number): Explained {
  const sequences = compared.map(({ sequence }) => sequence);
  if (baseline === "group")
    return { ...explainRelative(compared, { scale: "none", beta }), formula: "A_i = r_i − mean(r) of the group" };
  const { rewards, lines } = rewardsText(sequences, beta);
  if (baseline === "none") {
    return {
      formula: "A_i = r_i",
      lines,
      members: rewards.map(show),
      advantages: sequences.map(({ old }, i) => new Float32Array(old.length).fill(rewards[i]!)),
    };
  }
  const own = compared.map(({ member }) => recordedAdvantage(member)[0]);
  const at = own.findIndex((advantage) => advantage !== undefined);
  const centre = at < 0 ? undefined : rewards[at]! - own[at]!;
  return {
    formula: "A_i = r_i − mean of all rewards of the batch",
    lines: [...lines, ...(centre === undefined ? [] : [`mean of the batch = ${show(centre)}, by what was recorded`])],
    members: rewards.map((reward) =>
      centre === undefined
        ? `${show(reward)} − mean of the batch`
        : `${show(reward)} − ${showIn(centre)} = ${show(reward - centre)}`,
    ),
    note: "The mean is that of the whole batch, of which this group is a part.",
  };
}
