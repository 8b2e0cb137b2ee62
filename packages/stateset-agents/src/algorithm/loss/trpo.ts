/**
 * TRPO: the surrogate −ρA (token mean) and the constraint, mean KL(old‖new) ≤ δ. The step itself is in ../trust-region.ts.
 * Source: Schulman et al., "Trust Region Policy Optimization", 2015.
 * The KL is estimated on the sampled tokens: with ρ = π_new/π_old, KL(old‖new) ≈ ρ − 1 − log ρ (k3), derivative (ρ − 1)·∇logp. It is 0 with zero
 * gradient at the old policy, and the Hessian there is Σ ∇logp ∇logpᵀ / N, the Fisher matrix on the batch.
 */
import type { LossFunction } from "../algorithm.ts";
import type { Correction } from "../correction.ts";
import { clampLogRatio } from "./surrogate.ts";
import { sumTerms, type Term } from "./terms.ts";
import { tokenSurrogate } from "./token-surrogate.ts";

export function trpoLoss(options: { correction?: Correction | false | undefined } = {}): LossFunction {
  const terms = [tokenSurrogate(undefined, options.correction)];
  return (micro, counts) => sumTerms(micro, counts, "token-mean", terms);
}

const oldNewKl: Term = ({ logprobs, old }, weight, gradients) => {
  let sum = 0;
  for (let t = 0; t < logprobs.length; t++) {
    const raw = logprobs[t]! - old[t]!;
    const logRatio = clampLogRatio(raw);
    sum += Math.expm1(logRatio) - logRatio;
    if (logRatio === raw) gradients.logprobs[t]! += weight * Math.expm1(logRatio);
  }
  return weight * sum;
};

export const trpoKl: LossFunction = (micro, counts) => sumTerms(micro, counts, "token-mean", [oldNewKl]);
