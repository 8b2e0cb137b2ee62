/**
 * GRPO: L = 1/B Σ_i 1/|y_i| Σ_t [ −min(ρA, clip(ρ, 1−ε_lo, 1+ε_hi)·A) + β·k3 − c_e·H ].
 * Source: Shao et al., "DeepSeekMath", 2024. Its kin (Dr. GRPO, BNPO, DAPO) differ in the aggregation and the defaults alone.
 * Left out: process rewards of the paper's second variant; turn rewards (`credit: "turn"`) take their place.
 */
import type { LossFunction } from "../algorithm.ts";
import type { Correction } from "../correction.ts";
import type { KlEstimator } from "../kl.ts";
import type { Aggregation } from "./aggregation.ts";
import type { Clip } from "./surrogate.ts";
import { entropyTerm, klTerm, sumTerms } from "./terms.ts";
import { tokenSurrogate } from "./token-surrogate.ts";

/** What every policy loss may have beside its surrogate. */
export interface PenaltyOptions {
  /** β of the KL penalty in the loss. Default 0. */
  beta?: number | (() => number) | undefined;
  klEstimator?: KlEstimator | undefined;
  entropyCoefficient?: number | undefined;
  correction?: Correction | false | undefined;
}

export interface ClippedLossOptions extends Clip, PenaltyOptions {}

/** Every loss that is a token surrogate + KL + entropy. */
export function clippedTokenLoss(options: ClippedLossOptions, aggregation: Aggregation): LossFunction {
  const terms = [
    tokenSurrogate(options, options.correction),
    klTerm(options.beta ?? 0, options.klEstimator),
    entropyTerm(options.entropyCoefficient ?? 0),
  ];
  return (micro, counts) => sumTerms(micro, counts, aggregation, terms);
}

export const grpoLoss = (options: ClippedLossOptions): LossFunction => clippedTokenLoss(options, "sequence-mean");
