/**
 * The clipped surrogate at one importance ratio ρ = e^logRatio, the same for tokens (GRPO, PPO, …) and sequences (GSPO, GEPO):
 *   L = −min(ρA, clip(ρ, 1−ε_lo, 1+ε_hi)·A)           Schulman et al., "Proximal Policy Optimization Algorithms", 2017
 *   dual clip: for A < 0, L = min(L, −c·A)              Ye et al., "Mastering Complex Control in MOBA Games", 2019
 * Without `clip` it is −ρA.
 */
export interface Clip {
  epsilonLow: number;
  epsilonHigh: number;
  dualClip?: number | null | undefined;
}

export interface SurrogatePoint {
  ratio: number;
  loss: number;
  /** d loss / d logRatio */
  slope: number;
  /** True when a bound is in force, so that the slope is zero. */
  clipped: boolean;
}

const LIMIT = 20;

/** Log-ratios are kept within ±20 before exp; outside, the derivative is zero. */
export function clampLogRatio(logRatio: number): number {
  return Math.min(LIMIT, Math.max(-LIMIT, logRatio));
}

export function surrogate(logRatio: number, advantage: number, clip?: Clip): SurrogatePoint {
  const clamped = clampLogRatio(logRatio);
  const ratio = Math.exp(clamped);
  if (clip) {
    const bound =
      advantage > 0 && ratio > 1 + clip.epsilonHigh
        ? 1 + clip.epsilonHigh
        : advantage < 0 && ratio < 1 - clip.epsilonLow
          ? 1 - clip.epsilonLow
          : advantage < 0 && clip.dualClip != null && ratio > clip.dualClip
            ? clip.dualClip
            : undefined;
    if (bound !== undefined) return { ratio, loss: -bound * advantage, slope: 0, clipped: true };
  }
  const loss = -ratio * advantage;
  return { ratio, loss, slope: clamped === logRatio ? loss : 0, clipped: false };
}
