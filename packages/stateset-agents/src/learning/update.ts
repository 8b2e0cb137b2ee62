/** One optimiser batch: forward, loss in TypeScript, backward, step. Micro-batches only split the work; the result is that of the whole. */
import type {
  Advantages,
  Algorithm,
  BatchCounts,
  LossFunction,
  LossSequence,
  MetricSums,
} from "../algorithm/algorithm.ts";
import { mergeMetrics } from "../algorithm/metrics.ts";
import { StatesetError } from "../error.ts";
import type { Policy, Reference, StepOptions } from "../policy/policy.ts";
import {
  type Example,
  gather,
  gatherValues,
  type MicroBatch,
  microBatches,
  scatter,
  scatterValues,
} from "./micro-batch.ts";
import { type Regularisers, regularise } from "./regularise.ts";

export interface Learner {
  policy: Policy;
  algorithm: Algorithm;
  reference: Reference | undefined;
  tokenBudget: number;
  recompute: boolean;
}

/** Examples with their advantages, and the counts all losses of the step are divided by. */
export interface Batch {
  examples: readonly Example[];
  advantages: readonly Advantages[];
  /** Indices of the examples that carry gradient. */
  members: readonly number[];
  counts: BatchCounts;
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

/**
 * Adds to the sequences what the algorithm or the run needs: V(state before each token), the reference's log-probs, and with `sampled`
 * the trainer's own log-probs as `old`, for a policy whose sampler is another program.
 */
export async function scoreExamples(
  learner: Learner,
  examples: readonly Example[],
  want: { values: boolean; reference: boolean; sampled?: boolean },
): Promise<void> {
  if (!want.values && !want.reference && !want.sampled) return;
  const all = examples.map((_, index) => index);
  for (const batch of microBatches(examples, all, learner.tokenBudget)) {
    const { tree } = batch.merged;
    const { temperature } = batch;
    if (want.reference) {
      const scores = gather(batch, await learner.reference!.logprobs(tree, { temperature }));
      batch.members.forEach((member, i) => {
        examples[member]!.sequence.ref = scores[i]!;
      });
    }
    if (want.values || want.sampled) {
      const pass = await learner.policy.forward(tree, { grad: false, values: want.values, temperature });
      const values = want.values ? gatherValues(batch, pass.values!) : undefined;
      const scores = gather(batch, pass.logprobs);
      pass.release();
      batch.members.forEach((member, i) => {
        const { sequence } = examples[member]!;
        if (values) sequence.oldValues = values[i]!;
        if (want.sampled) Object.assign(sequence, { sampled: sequence.old, old: scores[i]! });
      });
    }
  }
}

/** One optimiser step on `batch.members`. With scope "value" only the value head learns. */
export async function update(
  learner: Learner,
  batch: Batch,
  regularisers: Regularisers,
  step: StepOptions,
): Promise<UpdateResult> {
  const { policy, algorithm } = learner;
  const loss: LossFunction = (micro, counts) => regularise(algorithm.loss(micro, counts), micro, counts, regularisers);
  const result = await accumulate(learner, batch, loss, step.scope === "value");
  if (result.skipped !== undefined) {
    await policy.zeroGradients();
    return { ...result, gradNorm: Number.NaN };
  }
  const report = await policy.step(step);
  return { ...result, gradNorm: report.gradNorm, skipped: report.applied ? undefined : "the gradient" };
}

/** Adds the gradient of the batch's loss to the policy's gradients, micro-batch by micro-batch. */
export async function accumulate(
  learner: Learner,
  { examples, advantages, members, counts }: Batch,
  loss: LossFunction,
  valueOnly = false,
): Promise<Omit<UpdateResult, "gradNorm">> {
  const metrics: MetricSums = {};
  let total = 0;
  let ratioMax = 1;
  for (const micro of microBatches(examples, members, learner.tokenBudget)) {
    const { pass, sequences } = await forward(learner, micro, examples, advantages);
    const result = loss(sequences, counts);
    mergeMetrics(metrics, result.metrics);
    total += result.loss;
    ratioMax = Math.max(ratioMax, largestRatio(sequences));
    const derivatives = {
      ...(!valueOnly && { logprobs: scatter(micro, result.dLogprobs) }),
      ...(!valueOnly && result.dEntropy && { entropy: scatter(micro, result.dEntropy) }),
      ...(result.dValues && { values: scatterValues(micro, result.dValues), valuesIntoTrunk: !valueOnly }),
    };
    const finite =
      Number.isFinite(result.loss) &&
      [derivatives.logprobs, derivatives.entropy, derivatives.values].every((d) => d?.every(Number.isFinite) ?? true);
    if (!finite) {
      pass.release();
      return { loss: result.loss, skipped: "the loss", metrics, ratioMax };
    }
    await learner.policy.backward(pass, derivatives);
  }
  return { loss: total, skipped: undefined, metrics, ratioMax };
}

/** The values of several losses at the policy as it is; nothing is added to the gradients. */
export async function measure(
  learner: Learner,
  { examples, advantages, members, counts }: Batch,
  losses: readonly LossFunction[],
): Promise<number[]> {
  const totals = losses.map(() => 0);
  for (const micro of microBatches(examples, members, learner.tokenBudget)) {
    const { pass, sequences } = await forward(learner, micro, examples, advantages, false);
    pass.release();
    losses.forEach((loss, i) => {
      totals[i]! += loss(sequences, counts).loss;
    });
  }
  return totals;
}

async function forward(
  { policy, algorithm, recompute }: Learner,
  micro: MicroBatch,
  examples: readonly Example[],
  advantages: readonly Advantages[],
  grad = true,
) {
  const values = algorithm.needs.values === true;
  const { tree } = micro.merged;
  // The entropy is always asked for: the diagnostics watch it, and it costs one multiplication per logit in a sweep that is made anyway.
  const wanted = { grad, entropy: true, values, temperature: micro.temperature, recompute };
  const pass = await policy.forward(tree, wanted).catch((error: unknown) => {
    if (!StatesetError.isInstance(error) || error.code !== "OUT_OF_MEMORY") throw error;
    const room = `It holds ${tree.tokens.length} tokens: lower tokenBudget in train()${recompute ? "" : ", or set recompute: true"}.`;
    throw new StatesetError("OUT_OF_MEMORY", `A micro-batch does not fit: ${error.message}`, {
      hint: room,
      cause: error,
    });
  });
  const logprobs = gather(micro, pass.logprobs);
  const entropy = gather(micro, pass.entropy!);
  const valuesBefore = values ? gatherValues(micro, pass.values!) : undefined;
  const sequences: LossSequence[] = micro.members.map((member, i) => ({
    ...examples[member]!.sequence,
    ...advantages[member]!,
    logprobs: logprobs[i]!,
    entropy: entropy[i]!,
    ...(valuesBefore && { values: valuesBefore[i]! }),
  }));
  return { pass, sequences };
}

function largestRatio(sequences: readonly LossSequence[]): number {
  let largest = 0;
  for (const { logprobs, old } of sequences) {
    for (let t = 0; t < old.length; t++) largest = Math.max(largest, Math.abs(logprobs[t]! - old[t]!));
  }
  return Math.exp(largest);
}
