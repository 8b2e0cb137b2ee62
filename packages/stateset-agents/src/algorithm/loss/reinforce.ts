/**
 * REINFORCE: −logp·A, summed over the tokens of a reply, mean over sequences: the plain policy gradient.
 * Source: Williams, 1992. Left out: a ratio, so it is right for one epoch per rollout only.
 */
import type { LossFunction } from "../algorithm.ts";
import type { Correction } from "../correction.ts";
import type { KlEstimator } from "../kl.ts";
import { policyGradientTerm } from "./likelihood.ts";
import { entropyTerm, klTerm, sumTerms } from "./terms.ts";

export function reinforceLoss(options: {
  beta?: number | undefined;
  klEstimator?: KlEstimator | undefined;
  entropyCoefficient?: number | undefined;
  correction?: Correction | false | undefined;
}): LossFunction {
  const terms = [
    policyGradientTerm(options.correction),
    klTerm(options.beta ?? 0, options.klEstimator),
    entropyTerm(options.entropyCoefficient ?? 0),
  ];
  return (micro, counts) => sumTerms(micro, counts, "sequence-sum", terms);
}
