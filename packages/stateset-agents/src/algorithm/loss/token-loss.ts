/** For losses of your own: say what one token costs and how that changes with its log-prob; sums, KL, entropy and metrics are done here. */
import type { LossFunction, LossSequence } from "../algorithm.ts";
import type { KlEstimator } from "../kl.ts";
import { addMetric, maxMetric } from "../metrics.ts";
import type { Aggregation } from "./aggregation.ts";
import { clampLogRatio } from "./surrogate.ts";
import { sumTerms, type Term, withPenalties } from "./terms.ts";

export interface TokenPoint {
  logprob: number;
  old: number;
  /** logprob − old, clamped to ±20. */
  logRatio: number;
  advantage: number;
  /** The log-prob to use inside stop-gradient factors. */
  frozen: number;
  sequence: LossSequence;
  token: number;
}

export interface TokenLossOptions {
  /** Default "token-mean". */
  aggregation?: Aggregation;
  /** β of a KL penalty against the reference. */
  beta?: number;
  klEstimator?: KlEstimator;
  entropyCoefficient?: number;
}

/**
 * @example tokenLoss(({ logRatio, advantage }) => {
 *   const loss = -Math.exp(logRatio) * advantage;
 *   return { loss, slope: loss }; // d loss / d logprob
 * })
 */
export function tokenLoss(
  point: (token: TokenPoint) => { loss: number; slope: number },
  options: TokenLossOptions = {},
): LossFunction {
  const own: Term = (sequence, weight, gradients, metrics) => {
    const { logprobs, frozen = logprobs, old, advantages } = sequence;
    let sum = 0;
    for (let token = 0; token < logprobs.length; token++) {
      const logRatio = clampLogRatio(logprobs[token]! - old[token]!);
      const { loss, slope } = point({
        logprob: logprobs[token]!,
        old: old[token]!,
        logRatio,
        advantage: advantages[token]!,
        frozen: frozen[token]!,
        sequence,
        token,
      });
      sum += loss;
      gradients.logprobs[token]! += weight * slope;
      addMetric(metrics, "ratio", Math.exp(logRatio));
      maxMetric(metrics, "ratioMax", Math.exp(logRatio));
    }
    return weight * sum;
  };
  const terms = withPenalties(options, own);
  return (micro, counts) => sumTerms(micro, counts, options.aggregation ?? "token-mean", terms);
}
