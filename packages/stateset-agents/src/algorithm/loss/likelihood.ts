/** −f_t·logp_t with a constant factor f: policy gradient without a ratio (REINFORCE, A2C), CISPO, and plain likelihood. */
import type { LossSequence } from "../algorithm.ts";
import { type Correction, tokenCorrection } from "../correction.ts";
import type { Term } from "./terms.ts";

export function likelihoodTerm(
  factorOf: (sequence: LossSequence) => (t: number) => number,
  correction?: Correction | false,
): Term {
  return (sequence, weight, gradients, metrics) => {
    const { logprobs } = sequence;
    const factor = factorOf(sequence);
    const mismatch = tokenCorrection(sequence, correction, metrics);
    let loss = 0;
    for (let t = 0; t < logprobs.length; t++) {
      const f = weight * (mismatch?.[t] ?? 1) * factor(t);
      loss -= f * logprobs[t]!;
      gradients.logprobs[t]! -= f;
    }
    return loss;
  };
}

/** f = A */
export const policyGradientTerm = (correction?: Correction | false): Term =>
  likelihoodTerm(
    ({ advantages }) =>
      (t) =>
        advantages[t]!,
    correction,
  );
