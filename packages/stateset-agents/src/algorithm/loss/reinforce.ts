/**
 * REINFORCE: −logp·A, summed over the tokens of a reply, mean over sequences: the plain policy gradient.
 * Source: Williams, 1992. Left out: a ratio, so it is right for one epoch per rollout only.
 */
import type { LossFunction } from "../algorithm.ts";
import type { CorrectedOptions } from "./grpo.ts";
import { policyGradientTerm } from "./likelihood.ts";
import { sumTerms, withPenalties } from "./terms.ts";

export function reinforceLoss(options: CorrectedOptions): LossFunction {
  const terms = withPenalties(options, policyGradientTerm(options.correction));
  return (micro, counts) => sumTerms(micro, counts, "sequence-sum", terms);
}
