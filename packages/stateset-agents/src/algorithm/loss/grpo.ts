/**
 * GRPO: L = 1/B Σ_i 1/|y_i| Σ_t [ −min(ρA, clip(ρ, 1−ε_lo, 1+ε_hi)·A) + β·k3 − c_e·H ].
 * Source: Shao et al., "DeepSeekMath", 2024. Its kin (Dr. GRPO, BNPO, DAPO) differ in the aggregation and the defaults alone.
 * Left out: process rewards of the paper's second variant; turn rewards (`credit: "turn"`) take their place.
 */
import type { LossFunction } from "../algorithm.ts";
import type { Correction } from "../correction.ts";
import type { Aggregation } from "./aggregation.ts";
import type { Clip } from "./surrogate.ts";
import { type PenaltyOptions, sumTerms, withPenalties } from "./terms.ts";
import { tokenSurrogate } from "./token-surrogate.ts";

/** What every policy loss may have beside its surrogate, and the correction of that. */
export interface CorrectedOptions extends PenaltyOptions {
  correction?: Correction | false | undefined;
}

export interface ClippedLossOptions extends Clip, CorrectedOptions {}

/** Every loss that is a token surrogate + KL + entropy. */
export function clippedTokenLoss(options: ClippedLossOptions, aggregation: Aggregation): LossFunction {
  const terms = withPenalties(options, tokenSurrogate(options, options.correction));
  return (micro, counts) => sumTerms(micro, counts, aggregation, terms);
}

export const grpoLoss = (options: ClippedLossOptions): LossFunction => clippedTokenLoss(options, "sequence-mean");
