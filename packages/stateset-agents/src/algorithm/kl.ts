/**
 * KL(π‖ref) estimated on tokens sampled from π, with k1 = logp − ref (clamped to ±20):
 *   k1 = k1                    unbiased, high variance; as a penalty in the *loss* its expected gradient is zero, so use it in the reward
 *   k2 = ½·k1²                 biased, its gradient is that of the true KL
 *   k3 = e^(−k1) + k1 − 1      unbiased, never negative
 * Source: J. Schulman, "Approximating KL Divergence", 2020.
 */
import { clampLogRatio } from "./loss/surrogate.ts";

export type KlEstimator = "k1" | "k2" | "k3";

export interface KlPoint {
  value: number;
  /** d value / d logp */
  slope: number;
}

export function klPoint(logp: number, ref: number, estimator: KlEstimator): KlPoint {
  const raw = logp - ref;
  const k1 = clampLogRatio(raw);
  const inside = k1 === raw ? 1 : 0;
  switch (estimator) {
    case "k1":
      return { value: k1, slope: inside };
    case "k2":
      return { value: 0.5 * k1 * k1, slope: inside * k1 };
    case "k3":
      return { value: Math.exp(-k1) + k1 - 1, slope: inside * (1 - Math.exp(-k1)) };
  }
}

/** Σ_t (old − ref): what a penalty in the reward is multiplied with. Left out: clamping, since nothing is exponentiated. */
export function sampledKl(old: ArrayLike<number>, ref: ArrayLike<number>): number {
  let sum = 0;
  for (let t = 0; t < old.length; t++) sum += old[t]! - ref[t]!;
  return sum;
}

/**
 * Adaptive coefficient: coef ← coef·(1 + clip(kl/target − 1, ±0.2)·min(1, n/horizon)), n = sequences since the last change.
 * Source: Ziegler et al., "Fine-Tuning Language Models from Human Preferences", 2019, §2.2. `kl` and `target` are per token.
 * The bound of 1 is ours: with n > 5·horizon the factor would be negative, and the penalty gone for good.
 */
export function adaptKl(coefficient: number, kl: number, o: { target: number; horizon: number; sequences: number }) {
  const error = Math.min(0.2, Math.max(-0.2, kl / o.target - 1));
  return coefficient * (1 + error * Math.min(1, o.sequences / o.horizon));
}
