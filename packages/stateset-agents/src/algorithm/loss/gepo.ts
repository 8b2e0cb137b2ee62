/**
 * GEPO: p_i, q_i = exp(mean token log-prob) under the new / old policy; w_i = p_i / sg(Σ_j q_j² / Σ_j q_j) over the group; clipped surrogate on
 * w_i, mean over sequences. The group's expectation in the denominator bounds the weight's variance when sampler and trainer are far apart.
 * Source: Zhang et al., "GEPO: Group Expectation Policy Optimization for Stable Heterogeneous Reinforcement Learning", 2025.
 * w_i is *not* 1 before the first update: members more likely than the group's expectation start above it.
 * Computed in logs (log-sum-exp), so that 2,000-token replies neither overflow nor vanish.
 */
import { mean, membersByGroup } from "../advantage/batch.ts";
import type { Advantages, LossFunction, Sequence } from "../algorithm.ts";
import { fromContext } from "./aggregation.ts";
import type { ClippedLossOptions } from "./grpo.ts";
import { clippedSequenceLoss } from "./gspo.ts";

export const gepoLoss = (options: ClippedLossOptions): LossFunction =>
  clippedSequenceLoss(options, { over: "mean", logDenominator: (sequence) => fromContext(sequence, "logExpectation") });

/** Adds log(Σ q² / Σ q) of each sequence's group to its context, since a micro-batch may hold only part of the group. */
export function withGroupExpectation(sequences: readonly Sequence[], advantages: readonly Advantages[]): Advantages[] {
  const logExpectation = new Map<number, number>();
  for (const [group, members] of membersByGroup(sequences)) {
    const logs = members.filter((i) => sequences[i]!.old.length > 0).map((i) => mean(sequences[i]!.old));
    logExpectation.set(group, logSumExp(logs.map((log) => 2 * log)) - logSumExp(logs));
  }
  return advantages.map((own, i) => ({
    ...own,
    context: { ...own.context, logExpectation: logExpectation.get(sequences[i]!.group)! },
  }));
}

function logSumExp(logs: readonly number[]): number {
  const max = Math.max(...logs);
  return max + Math.log(logs.reduce((sum, log) => sum + Math.exp(log - max), 0));
}
