/**
 * GMPO: −A·G, G = exp(1/|y| Σ_t c(log ρ_t)): the geometric mean of the tokens' clipped ratios, mean over sequences. c clips each token's log-ratio
 * to the side its advantage pushes: at most ε_hi where A > 0, at least −ε_lo where A < 0. A few extreme ratios move a geometric mean little, so the
 * clip may be wide. ε is of the log-ratio: ρ between e^−ε_lo and e^ε_hi.
 * Source: Zhao et al., "Geometric-Mean Policy Optimization", 2025 (ε 0.4 on both sides).
 * GSPO clips the mean of the log-ratios, GMPO each of them before the mean: a token at its bound loses its gradient, the others keep theirs.
 */
import { mean } from "../advantage/batch.ts";
import type { LossFunction } from "../algorithm.ts";
import { type Correction, sequenceCorrection } from "../correction.ts";
import { addMetric, maxMetric } from "../metrics.ts";
import type { CorrectedOptions } from "./grpo.ts";
import { clampLogRatio } from "./surrogate.ts";
import { sumTerms, type Term, withPenalties } from "./terms.ts";

/** Bounds of a token's log-ratio. */
export interface LogClip {
  epsilonLow: number;
  epsilonHigh: number;
}

export function gmpoLoss(options: LogClip & CorrectedOptions): LossFunction {
  const terms = withPenalties(options, geometricSurrogate(options, options.correction));
  return (micro, counts) => sumTerms(micro, counts, "sequence-mean", terms);
}

/** −A·G of each sequence, for the aggregation "sequence-mean". The advantage is the mean over the sequence's tokens. */
export function geometricSurrogate({ epsilonLow, epsilonHigh }: LogClip, correction?: Correction | false): Term {
  return (sequence, weight, gradients, metrics) => {
    const { logprobs, old, advantages } = sequence;
    const { length } = logprobs;
    const advantage = mean(advantages);
    const moves = new Uint8Array(length);
    let sum = 0;
    let clipped = 0;
    for (let t = 0; t < length; t++) {
      const raw = logprobs[t]! - old[t]!;
      const clamped = clampLogRatio(raw);
      const bounded =
        advantage > 0 ? Math.min(clamped, epsilonHigh) : advantage < 0 ? Math.max(clamped, -epsilonLow) : clamped;
      sum += bounded;
      if (bounded !== clamped) clipped++;
      moves[t] = bounded === raw ? 1 : 0;
    }
    const ratio = Math.exp(sum / length);
    const w = weight * sequenceCorrection(sequence, correction, "mean", metrics);
    const loss = -ratio * advantage;
    for (let t = 0; t < length; t++) if (moves[t]) gradients.logprobs[t]! += w * loss;
    addMetric(metrics, "ratio", ratio);
    maxMetric(metrics, "ratioMax", ratio);
    addMetric(metrics, "clipFraction", clipped, length);
    return w * loss * length;
  };
}
