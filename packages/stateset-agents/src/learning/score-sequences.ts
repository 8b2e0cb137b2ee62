/** What is known of sampled tokens before the first update: values, the reference's log-probs, the trainer's own. */
import type { Learner } from "./learner.ts";
import type { LearningMetrics } from "./metric-table.ts";
import { gather, gatherValues, microBatches } from "./micro-batch.ts";
import { batchTokens } from "./optimiser.ts";
import { scorePasses } from "./passes.ts";
import type { ChainSequence } from "./sequence.ts";

/**
 * Adds to the sequences what the algorithm or the run needs: V(state before each token and after the last), the reference's log-probs,
 * entropies, and with `sampled` the trainer's own log-probs as `old`, for a policy whose sampler is another program. Recalled sequences
 * get them always, and are from then on as if the policy had sampled them.
 */
export async function scoreSequences(
  { policy, reference, settings }: Learner,
  sequences: readonly ChainSequence[],
  want: { values: boolean; reference: boolean; entropy?: boolean; sampled?: boolean },
): Promise<void> {
  const batches = (members: Iterable<number> = sequences.keys()) =>
    microBatches(sequences, members, batchTokens(policy, settings.tokenBudget));
  if (want.reference) {
    for (const batch of batches()) {
      const { temperature } = batch;
      const scores = gather(batch, await reference!.logprobs(batch.merged.tree, { temperature }));
      batch.members.forEach((member, i) => {
        sequences[member]!.ref = scores[i]!;
      });
    }
  }
  const recalled = [...sequences.keys()].filter((i) => sequences[i]!.recalled);
  const { entropy = false } = want;
  const members = want.values || entropy || want.sampled ? sequences.keys() : recalled;
  await scorePasses(policy, batches(members), { values: want.values, entropy }, (batch, pass) => {
    const values = want.values ? gatherValues(batch, pass.values!) : undefined;
    const entropies = entropy ? gather(batch, pass.entropy!) : undefined;
    const scores = gather(batch, pass.logprobs);
    batch.members.forEach((member, i) => {
      const sequence = sequences[member]!;
      if (values) sequence.oldValues = values[i]!;
      if (values && sequence.endedByLimit) sequence.endValue = pass.values![batch.places[i]!.at(-1)!]!;
      if (entropies) sequence.oldEntropy = entropies[i]!;
      if (sequence.recalled) sequence.old = scores[i]!;
      else if (want.sampled) Object.assign(sequence, { sampled: sequence.sampled ?? sequence.old, old: scores[i]! });
    });
  });
}

/** How far the distribution that was drawn from is from the policy: mean and largest |log-prob difference| of the sampled tokens. */
export function mismatchOf(sequences: readonly ChainSequence[]): LearningMetrics {
  let [sum, count, largest] = [0, 0, 0];
  for (const { old, sampled } of sequences) {
    for (let t = 0; sampled && t < old.length; t++) {
      const difference = Math.abs(old[t]! - sampled[t]!);
      sum += difference;
      largest = Math.max(largest, difference);
      count++;
    }
  }
  return count === 0 ? {} : { mismatch: sum / count, mismatchMax: largest };
}
