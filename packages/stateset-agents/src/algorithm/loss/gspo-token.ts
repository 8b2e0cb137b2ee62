/**
 * GSPO-token: log s_it = logp_t − sg(logp_t) + sg(log s_i): the value of GSPO's ratio with a gradient for each token of its own, so that
 * advantages may differ from token to token. Clipped surrogate per token, mean over sequences of the mean over tokens.
 * Equal to GSPO in value and gradient when the advantages of a sequence are all the same.
 * Source: Zheng et al., "Group Sequence Policy Optimization", 2025, §4.3.
 */
import { mean } from "../advantage/batch.ts";
import type { LossFunction } from "../algorithm.ts";
import type { ClippedLossOptions } from "./grpo.ts";
import { sumTerms, withPenalties } from "./terms.ts";
import { tokenSurrogate } from "./token-surrogate.ts";

export function gspoTokenLoss(options: ClippedLossOptions): LossFunction {
  const terms = withPenalties(
    options,
    tokenSurrogate(options, options.correction, ({ logprobs, frozen = logprobs, old }) => {
      const logRatio = mean(frozen) - mean(old);
      return (t) => logprobs[t]! - frozen[t]! + logRatio;
    }),
  );
  return (micro, counts) => sumTerms(micro, counts, "sequence-mean", terms);
}
