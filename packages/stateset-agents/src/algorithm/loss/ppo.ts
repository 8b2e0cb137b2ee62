/**
 * PPO: the clipped surrogate with GAE advantages (whitened), a clipped value loss and an entropy bonus, averaged over the tokens of the batch.
 * The KL penalty is in the reward by default (k1 on each token), or in the loss.
 * Source: Schulman et al., "Proximal Policy Optimization Algorithms", 2017; Ouyang et al., "InstructGPT", 2022.
 * Left out: early stopping on KL, the pre-training mix (PPO-ptx).
 */
import type { LossFunction } from "../algorithm.ts";
import type { ClippedLossOptions } from "./grpo.ts";
import { sumTerms, withPenalties } from "./terms.ts";
import { tokenSurrogate } from "./token-surrogate.ts";
import { valueTerm } from "./value.ts";

export interface PpoLossOptions extends ClippedLossOptions {
  valueCoefficient: number;
  valueClip: number | null;
}

export const ppoTerms = (options: PpoLossOptions) =>
  withPenalties(
    options,
    tokenSurrogate(options, options.correction),
    valueTerm(options.valueCoefficient, options.valueClip),
  );

export function ppoLoss(options: PpoLossOptions): LossFunction {
  const terms = ppoTerms(options);
  return (micro, counts) => sumTerms(micro, counts, "token-mean", terms);
}
