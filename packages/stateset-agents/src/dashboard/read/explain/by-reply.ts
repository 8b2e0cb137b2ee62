/** Advantages of single replies (credit by turn, by state), and of several rewards at once. */

import { rewardsOf } from "../../../algorithm/advantage/batch.ts";
import { normaliseInGroups, SCALE_EPSILON, type Scale } from "../../../algorithm/advantage/group.ts";
import { stateAdvantages } from "../../../algorithm/advantage/state-credit.ts";
import { repliesOf, replyRewards, rewardAtEnd, turnAdvantages } from "../../../algorithm/advantage/turn-credit.ts";
import type { Sequence } from "../../../algorithm/algorithm.ts";
import { type Compared, recordedAdvantage } from "./compared.ts";
import { type Explained, show } from "./why.ts";

export function explainTurns(
  compared: readonly Compared[],
  { scale, beta }: { scale: Scale; beta: number },
): Explained {
  const sequences = compared.map(({ sequence }) => sequence);
  const rewards = rewardsOf(sequences, beta);
  const computed = turnAdvantages(sequences, { scale, rewards }).map(({ advantages }) => advantages);
  const divisor =
    scale === "none" ? "" : scale === "group" ? " / (std of these + 0.0001)" : " / (std of the batch + 0.0001)";
  return {
    formula: `A of reply k = (R_k − mean of R_k over the group)${divisor}, R_k = rewards from reply k on`,
    lines: [],
    members: sequences.map((sequence, i) => {
      const replies = repliesOf(sequence.turn);
      const returns = returnsOf(sequence, rewards[i]!);
      const shown = scale === "batch" ? recordedAdvantage(compared[i]!.member) : computed[i]!;
      return replies
        .map(({ first }, k) => `reply ${k + 1}: R = ${show(returns[k]!)} → A = ${show(shown[first] ?? Number.NaN)}`)
        .join("; ");
    }),
    ...(scale === "batch"
      ? { note: "The spread is that of the whole batch, of which this group is a part." }
      : { advantages: computed }),
  };
}

/** What each reply still had to come. */
function returnsOf(sequence: Sequence, reward: number): number[] {
  const own = [...replyRewards(sequence, repliesOf(sequence.turn))];
  let ahead = rewardAtEnd(sequence, reward);
  for (let k = own.length - 1; k >= 0; k--) {
    ahead += own[k]!;
    own[k] = ahead;
  }
  return own;
}

export function explainStates(
  compared: readonly Compared[],
  { scale, beta, weight, discount }: { scale: Scale; beta: number; weight: number; discount: number },
): Explained {
  const sequences = compared.map(({ sequence }) => sequence);
  const rewards = rewardsOf(sequences, beta);
  const computed = stateAdvantages(sequences, { scale, weight, discount, rewards }).map(({ advantages }) => advantages);
  const divisor = scale === "none" ? "" : scale === "group" ? " / (std_S + 0.0001)" : " / (std of the batch + 0.0001)";
  const episode = normaliseInGroups(sequences, rewards, scale);
  return {
    formula: `A of reply k = A_episode + ${show(weight)}·(R_k − mean_S)${divisor}, over the replies S of the group that answer the same state; R_k = Σ_j ${show(discount)}^(j−k)·r_j`,
    lines: [],
    members: sequences.map(({ turn, states = {} }, i) => {
      const shown = scale === "batch" ? recordedAdvantage(compared[i]!.member) : computed[i]!;
      const replies = repliesOf(turn).map((reply, k) => {
        const alone = states[reply.turn] === undefined ? " (its state is not told)" : "";
        return `reply ${k + 1}: A = ${show(shown[reply.first] ?? Number.NaN)}${alone}`;
      });
      return [...(scale === "batch" ? [] : [`A_episode = ${show(episode[i]!)}`]), ...replies].join("; ");
    }),
    ...(scale === "batch"
      ? { note: "The spread is that of the whole batch, of which this group is a part." }
      : { advantages: computed }),
  };
}

export function explainParts(compared: readonly Compared[], weights: Readonly<Record<string, number>>): Explained {
  const sequences = compared.map(({ sequence }) => sequence);
  const sums = new Array<number>(sequences.length).fill(0);
  const terms: string[][] = sequences.map(() => []);
  for (const [part, weight] of Object.entries(weights)) {
    const values = sequences.map(({ breakdown }) => breakdown[part]);
    if (values.some((value) => typeof value !== "number")) continue;
    const normalised = normaliseInGroups(sequences, values as number[]);
    normalised.forEach((own, i) => {
      sums[i]! += weight * own;
      terms[i]!.push(`${show(weight)}·${show(own)} (${part})`);
    });
  }
  return {
    formula: `s_i = Σ w·(part_i − mean(part)) / (std(part) + ${SCALE_EPSILON}); A_i = (s_i − mean of the batch's s) / (std of the batch's s + ${SCALE_EPSILON})`,
    lines: [
      `weights: ${Object.entries(weights)
        .map(([part, weight]) => `${part} ${show(weight)}`)
        .join(", ")}`,
    ],
    members: sums.map((sum, i) => {
      const recorded = recordedAdvantage(compared[i]!.member)[0];
      return `s = ${terms[i]!.join(" + ")} = ${show(sum)}${recorded === undefined ? "" : ` → A = ${show(recorded)}`}`;
    }),
    note: "The sums are normalised once more over the whole batch, of which this group is a part; conversations whose parts failed are compared otherwise.",
  };
}
