/**
 * Mismatch correction, for when the sampler is not the trainer (a server, a stale policy, truncated sampling):
 *   w_t = exp(old_t − sampled_t), a constant factor on the policy term (not on KL, entropy or value):
 *   truncate   min(w, cap)                                Yao et al., "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training", 2025
 *   mask       w inside [low, high], else 0               "IcePop", Ling team, 2025
 * `sequenceMask` also drops whole sequences whose geometric-mean weight lies outside [low, high].
 * train() puts the sampler's log-probs into `sampled` where they differ from the trainer's; sequences without them are left alone.
 * With top-p the tokens that are left share the mass of the others, so w is that mass: below 1 where much was cut.
 */
import type { MetricSums, Sequence } from "./algorithm.ts";
import { clampLogRatio } from "./loss/surrogate.ts";
import { addMetric } from "./metrics.ts";

export interface Correction {
  mode: "truncate" | "mask";
  cap: number;
  low: number;
  high: number;
  sequenceMask: boolean;
}

function bounded(w: number, o: Correction): number {
  if (o.mode === "truncate") return Math.min(w, o.cap);
  return w >= o.low && w <= o.high ? w : 0;
}

/** Σ_t (old − sampled) */
function logMismatch({ old, sampled }: Sequence): number {
  let sum = 0;
  for (let t = 0; t < old.length; t++) sum += old[t]! - sampled![t]!;
  return sum;
}

function masked(sequence: Sequence, o: Correction): boolean {
  if (!o.sequenceMask) return false;
  const mean = Math.exp(clampLogRatio(logMismatch(sequence) / sequence.old.length));
  return mean < o.low || mean > o.high;
}

/** One weight per token, or undefined when there is nothing to correct. */
export function tokenCorrection(
  sequence: Sequence,
  options: Correction | false | undefined,
  metrics?: MetricSums,
): Float64Array | undefined {
  const { old, sampled } = sequence;
  if (!options || !sampled) return undefined;
  const weights = new Float64Array(old.length);
  const drop = masked(sequence, options);
  let changed = 0;
  for (let t = 0; t < old.length; t++) {
    const w = Math.exp(clampLogRatio(old[t]! - sampled[t]!));
    weights[t] = drop ? 0 : bounded(w, options);
    if (weights[t] !== w) changed++;
  }
  if (metrics) addMetric(metrics, "mismatchClipped", changed, old.length);
  return weights;
}

/** One weight for the sequence: the geometric mean of its tokens' (GSPO, GEPO) or their product (RLOO), bounded likewise. */
export function sequenceCorrection(
  sequence: Sequence,
  options: Correction | false | undefined,
  kind: "mean" | "product",
  metrics?: MetricSums,
): number {
  if (!options || !sequence.sampled) return 1;
  const log = logMismatch(sequence) / (kind === "mean" ? sequence.old.length : 1);
  const w = Math.exp(clampLogRatio(log));
  const weight = masked(sequence, options) ? 0 : bounded(w, options);
  if (metrics) addMetric(metrics, "mismatchClipped", weight === w ? 0 : 1);
  return weight;
}
