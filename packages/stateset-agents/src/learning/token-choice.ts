/** Which tokens get a policy gradient: the run's own choices, for whatever algorithm runs. */
import type { Advantages, LossFunction } from "../algorithm/algorithm.ts";
import { keepUncertainTokens } from "../algorithm/entropy-mask.ts";
import { addMetric } from "../algorithm/metrics.ts";
import { maskOffPolicy } from "../algorithm/off-policy-mask.ts";
import type { Learner } from "./learner.ts";
import { type Regularisers, regularise } from "./regularise.ts";
import type { ChainSequence } from "./sequence.ts";

/** The algorithm's advantages, of the most uncertain tokens alone where `entropyQuantile` says so. */
export function chosenAdvantages(
  { algorithm, settings: { entropyQuantile } }: Learner,
  sequences: readonly ChainSequence[],
): { advantages: Advantages[]; entropyThreshold?: number } {
  const advantages = algorithm.advantages(sequences);
  if (entropyQuantile === undefined) return { advantages };
  const { advantages: kept, threshold } = keepUncertainTokens(sequences, advantages, entropyQuantile);
  return { advantages: kept, ...(threshold !== undefined && { entropyThreshold: threshold }) };
}

/** What an update makes smaller: the algorithm's loss without what `offPolicyMask` takes out, and the run's own terms. */
export function objective(
  { algorithm, settings: { offPolicyMask } }: Learner,
  regularisers: Regularisers,
): LossFunction {
  return (micro, counts) => {
    const seen = offPolicyMask === undefined ? micro : micro.map((own) => maskOffPolicy(own, offPolicyMask));
    const result = regularise(algorithm.loss(seen, counts), micro, counts, regularisers);
    if (offPolicyMask !== undefined)
      addMetric(result.metrics, "offPolicyMasked", seen.filter((own, i) => own !== micro[i]).length, micro.length);
    return result;
  };
}
