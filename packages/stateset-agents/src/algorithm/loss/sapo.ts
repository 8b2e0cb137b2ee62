/**
 * SAPO: −f(ρ)·A with the soft gate f(ρ) = 4/τ·σ(τ·(ρ − 1)), τ = τ_pos where A > 0 and τ_neg elsewhere; mean over sequences of the mean over
 * tokens. What a clip does at once the gate does by degrees: it weakens the unclipped gradient −ρA·∇logp by 4σ(1 − σ), which is 1 on policy for
 * every τ and falls to both sides. A larger τ_neg lets go of tokens sooner where the advantage is not positive.
 * Source: Gao et al., "Soft Adaptive Policy Optimization", 2025 (τ_pos 1, τ_neg 1.05).
 */
import type { LossFunction } from "../algorithm.ts";
import type { Correction } from "../correction.ts";
import type { CorrectedOptions } from "./grpo.ts";
import { sigmoid } from "./preference.ts";
import { clampLogRatio, type SurrogatePoint } from "./surrogate.ts";
import { sumTerms, type Term, withPenalties } from "./terms.ts";
import { tokenTerm } from "./token-surrogate.ts";

export interface SoftGate {
  tauPositive: number;
  tauNegative: number;
}

export function sapoLoss(options: SoftGate & CorrectedOptions): LossFunction {
  const terms = withPenalties(options, softSurrogate(options, options.correction));
  return (micro, counts) => sumTerms(micro, counts, "sequence-mean", terms);
}

/** The soft gate on every token, times the mismatch weight where sampler and trainer differ. */
export function softSurrogate(gate: SoftGate, correction?: Correction | false): Term {
  return tokenTerm((logRatio, advantage) => softPoint(logRatio, advantage, gate), { correction });
}

function softPoint(logRatio: number, advantage: number, { tauPositive, tauNegative }: SoftGate): SurrogatePoint {
  const clamped = clampLogRatio(logRatio);
  const ratio = Math.exp(clamped);
  const tau = advantage > 0 ? tauPositive : tauNegative;
  const open = sigmoid(tau * (ratio - 1));
  // 1 − σ by its own sigmoid: far out the difference would be 0 too early.
  const slope = clamped === logRatio ? -4 * open * sigmoid(-tau * (ratio - 1)) * ratio * advantage : 0;
  return { ratio, loss: (-4 / tau) * open * advantage, slope, clipped: false };
}
