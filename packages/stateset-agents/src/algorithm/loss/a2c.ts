/**
 * A2C: −logp·A + c_v·½(V−R)² − c_e·H, token mean; A from GAE or n-step returns with the value head.
 * Source: Mnih et al., "Asynchronous Methods for Deep Reinforcement Learning", 2016 (the synchronous form).
 * Left out: a ratio. Use one epoch per rollout; with more, PPO is the right choice.
 */
import type { LossFunction } from "../algorithm.ts";
import type { Correction } from "../correction.ts";
import { policyGradientTerm } from "./likelihood.ts";
import { entropyTerm, sumTerms } from "./terms.ts";
import { valueTerm } from "./value.ts";

export function a2cLoss(options: {
  valueCoefficient: number;
  entropyCoefficient: number;
  correction?: Correction | false | undefined;
}): LossFunction {
  const terms = [
    policyGradientTerm(options.correction),
    valueTerm(options.valueCoefficient),
    entropyTerm(options.entropyCoefficient),
  ];
  return (micro, counts) => sumTerms(micro, counts, "token-mean", terms);
}
