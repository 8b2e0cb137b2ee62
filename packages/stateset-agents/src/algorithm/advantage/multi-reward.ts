/**
 * Multi-reward (GDPO): every named part of the reward is normalised in its group, so that no part drowns another by its scale;
 * the weighted sum of these is then normalised over the batch: A = (s − mean_batch(s)) / (std_batch(s) + ε), unbiased std, ε = 1e-4.
 * Source: Liu et al., "GDPO: Group reward-Decoupled Normalization Policy Optimization for Multi-reward RL Optimization", 2026.
 * The reward's `score` is not used: the weights say how parts add up. What shaping took off it (overlong replies) is added to the sum, centred in
 * the group: a penalty of 1 counts like one standard deviation of a part of weight 1. A part that failed for a conversation and was skipped says nothing
 * of it: the others of the group are compared without it, and it gets 0 for that part, their mean. A conversation that failed has no
 * parts: it gets the worst of its group's in each, and nothing better than its own reward.
 */
import { StatesetError } from "../../error.ts";
import { didYouMean } from "../../suggest.ts";
import type { Advantages, Sequence } from "../algorithm.ts";
import { spread, standardDeviation } from "./batch.ts";
import { normalise, normaliseInGroups } from "./group.ts";

export function multiRewardAdvantages(
  sequences: readonly Sequence[],
  options: { weights: Readonly<Record<string, number>> },
): Advantages[] {
  const sums = new Array<number>(sequences.length).fill(0);
  for (const [part, weight] of Object.entries(options.weights)) {
    const given = sequences.map((sequence) => (sequence.failed ? undefined : partOf(sequence, part)));
    const values = sequences.map((one, i) => (one.failed ? worstOf(sequences, given, one, weight) : given[i]));
    const scored = sequences.map((_, i) => i).filter((i) => values[i] !== undefined);
    const normalised = normaliseInGroups(
      scored.map((i) => sequences[i]!),
      scored.map((i) => values[i]!),
    );
    for (const [n, i] of scored.entries()) sums[i]! += weight * normalised[n]!;
  }
  const shaping = normaliseInGroups(
    sequences,
    sequences.map((sequence) => sequence.shaping ?? 0),
    "none",
  );
  for (const [i, own] of shaping.entries()) sums[i]! += own;
  return spread(sequences, normalise(sums, "batch", standardDeviation(sums)));
}

function worstOf(
  sequences: readonly Sequence[],
  values: readonly (number | undefined)[],
  { group, reward }: Sequence,
  weight: number,
): number {
  const sign = weight < 0 ? -1 : 1;
  const others = values.filter((value, i) => value !== undefined && sequences[i]!.group === group) as number[];
  return sign * Math.min(reward, ...others.map((value) => sign * value));
}

function partOf({ breakdown, failedParts }: Sequence, part: string): number | undefined {
  if (Object.hasOwn(breakdown, part)) return breakdown[part]!;
  if (failedParts?.includes(part)) return undefined;
  throw new StatesetError(
    "INVALID_OPTION",
    `rewardWeights names "${part}", which the reward's breakdown does not have.`,
    {
      hint: didYouMean(part, Object.keys(breakdown)),
    },
  );
}
