/** One optimiser batch: forward, loss in TypeScript, backward, step. */
import type { Advantages, BatchCounts, LossFunction, LossSequence, MetricSums } from "../algorithm/algorithm.ts";
import { mergeMetrics } from "../algorithm/metrics.ts";
import type { Forward, StepOptions } from "../policy/policy.ts";
import type { Learner } from "./learner.ts";
import type { LearntTokens } from "./learnt-tokens.ts";
import { gather, gatherValues, type MicroBatch, microBatches, scatter, scatterValues } from "./micro-batch.ts";
import { batchTokens } from "./optimiser.ts";
import { addGradients, scorePasses } from "./passes.ts";
import type { Regularisers } from "./regularise.ts";
import type { ChainSequence } from "./sequence.ts";
import { objective } from "./token-choice.ts";

/** Sequences with their advantages, and the counts all losses of the step are divided by. */
export interface Batch {
  sequences: readonly ChainSequence[];
  advantages: readonly Advantages[];
  /** Indices of the sequences that carry gradient. */
  members: readonly number[];
  counts: BatchCounts;
  /** Told of what passes over the batch say of its tokens. */
  learnt?: LearntTokens | undefined;
}

export interface UpdateResult {
  loss: number;
  gradNorm: number;
  /** Undefined when the policy moved; otherwise what was not finite. */
  skipped: string | undefined;
  metrics: MetricSums;
  /** max e^|logp − old| over the tokens: exactly 1 when the policy is the one that sampled. */
  ratioMax: number;
}

/** One optimiser step on `batch.members`. With scope "value" only the value head learns. */
export async function update(
  learner: Learner,
  batch: Batch,
  regularisers: Regularisers,
  step: StepOptions,
): Promise<UpdateResult> {
  const { policy } = learner;
  const result = await accumulate(learner, batch, objective(learner, regularisers), step.scope === "value");
  if (result.skipped !== undefined) {
    await policy.zeroGradients();
    return { ...result, gradNorm: Number.NaN };
  }
  const report = await policy.step(step);
  return { ...result, gradNorm: report.gradNorm, skipped: report.applied ? undefined : "the gradient" };
}

/** Adds the gradient of the batch's loss to the policy's gradients. */
export async function accumulate(
  { policy, algorithm, settings, onPass }: Learner,
  batch: Batch,
  lossOf: LossFunction,
  valueOnly = false,
): Promise<Omit<UpdateResult, "gradNorm">> {
  const metrics: MetricSums = {};
  let ratioMax = 1;
  const progress = { done: 0, of: batch.members.length };
  onPass?.(progress);
  // The entropy is always asked for: it is recorded with the tokens, and costs one multiplication per logit in a sweep that is made anyway.
  const want = { entropy: true, values: algorithm.needs.values === true, recompute: settings.recompute };
  const batches = microBatches(batch.sequences, batch.members, batchTokens(policy, settings.tokenBudget));
  const loss = await addGradients(policy, batches, want, (micro, pass) => {
    const scored = scoredBy(pass, micro, batch);
    const { loss, dLogprobs, dEntropy, dValues, metrics: own } = lossOf(scored, batch.counts);
    mergeMetrics(metrics, own);
    ratioMax = Math.max(ratioMax, largestRatio(scored));
    progress.done += scored.length;
    onPass?.(progress);
    const derivatives = {
      ...(!valueOnly && { logprobs: scatter(micro, dLogprobs) }),
      ...(!valueOnly && dEntropy && { entropy: scatter(micro, dEntropy) }),
      ...(dValues && { values: scatterValues(micro, dValues), valuesIntoTrunk: !valueOnly }),
    };
    return { loss, derivatives };
  });
  return { loss, skipped: Number.isFinite(loss) ? undefined : "the loss", metrics, ratioMax };
}

/** The values of several losses at the policy as it is; nothing is added to the gradients. */
export async function measure(
  { policy, algorithm, settings }: Learner,
  batch: Batch,
  losses: readonly LossFunction[],
): Promise<number[]> {
  const totals = losses.map(() => 0);
  const want = { entropy: true, values: algorithm.needs.values === true };
  const batches = microBatches(batch.sequences, batch.members, batchTokens(policy, settings.tokenBudget));
  await scorePasses(policy, batches, want, (micro, pass) => {
    const scored = scoredBy(pass, micro, batch);
    losses.forEach((loss, i) => {
      totals[i]! += loss(scored, batch.counts).loss;
    });
  });
  return totals;
}

/** The members of a micro-batch as the loss sees them. */
function scoredBy(pass: Forward, micro: MicroBatch, { sequences, advantages, learnt }: Batch): LossSequence[] {
  const logprobs = gather(micro, pass.logprobs);
  const entropy = gather(micro, pass.entropy!);
  const values = pass.values && gatherValues(micro, pass.values);
  const scored = micro.members.map((member, i) => ({
    ...sequences[member]!,
    ...advantages[member]!,
    logprobs: logprobs[i]!,
    entropy: entropy[i]!,
    ...(values && { values: values[i]! }),
  }));
  if (learnt) for (const sequence of scored) learnt.score(sequence, sequence);
  return scored;
}

function largestRatio(sequences: readonly LossSequence[]): number {
  let largest = 0;
  for (const { logprobs, old } of sequences) {
    for (let t = 0; t < old.length; t++) largest = Math.max(largest, Math.abs(logprobs[t]! - old[t]!));
  }
  return Math.exp(largest);
}
