/**
 * How token losses become one number. The weight of a token of sequence i, so that Σ weight·loss is this micro-batch's share:
 *   sequence-mean    1 / (B·|y_i|)     mean over sequences of the mean over tokens (GRPO)
 *   sequence-sum     1 / B             mean over sequences of the sum over tokens (REINFORCE, RLOO)
 *   token-mean       1 / N             mean over the tokens of the whole optimiser batch (DAPO, PPO)
 *   group-mean       1 / (G·Σm_group)  mean over groups of the mean over the group's tokens (BNPO)
 *   fixed-length     1 / (B·L_max)     constant, so that long replies are not favoured (Dr. GRPO)
 * B, N, G count the whole optimiser batch, never the micro-batch.
 */
import { StatesetError } from "../../error.ts";
import type { BatchCounts, LossSequence } from "../algorithm.ts";

export type Aggregation = "sequence-mean" | "sequence-sum" | "token-mean" | "group-mean" | "fixed-length";

export function tokenWeight(aggregation: Aggregation, sequence: LossSequence, counts: BatchCounts): number {
  switch (aggregation) {
    case "sequence-mean":
      return 1 / (counts.sequences * sequence.logprobs.length);
    case "sequence-sum":
      return 1 / counts.sequences;
    case "token-mean":
      return 1 / counts.tokens;
    case "group-mean":
      return 1 / (counts.groups * fromContext(sequence, "groupTokens"));
    case "fixed-length":
      return 1 / (counts.sequences * counts.maxTokens);
  }
}

/** A number that advantages() computed over the whole batch for this sequence. */
export function fromContext(sequence: LossSequence, name: string): number {
  const value = sequence.context?.[name];
  if (value !== undefined) return value;
  throw new StatesetError("INVALID_DATA", `A sequence came to the loss without context.${name}.`, {
    hint: "Spread the whole result of algorithm.advantages() into the sequences given to algorithm.loss().",
  });
}
