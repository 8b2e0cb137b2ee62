/** The clipped surrogate on every token, times the mismatch weight where sampler and trainer differ. */
import type { LossSequence } from "../algorithm.ts";
import { type Correction, tokenCorrection } from "../correction.ts";
import { addMetric, maxMetric } from "../metrics.ts";
import { type Clip, type SurrogatePoint, surrogate } from "./surrogate.ts";
import type { Term } from "./terms.ts";

/** The log-ratio of each token; its derivative with respect to the token's own log-prob must be 1, and 0 with respect to others. */
export type TokenLogRatio = (sequence: LossSequence) => (t: number) => number;

const plain: TokenLogRatio =
  ({ logprobs, old }) =>
  (t) =>
    logprobs[t]! - old[t]!;

export function tokenSurrogate(clip?: Clip, correction?: Correction | false, logRatioOf?: TokenLogRatio): Term {
  const point = (logRatio: number, advantage: number) => surrogate(logRatio, advantage, clip);
  return tokenTerm(point, { correction, logRatioOf, clips: clip !== undefined });
}

/** Any function of a token's log-ratio and advantage. `clips`: the share of clipped tokens is reported. */
export function tokenTerm(
  pointOf: (logRatio: number, advantage: number) => SurrogatePoint,
  options: { correction?: Correction | false | undefined; logRatioOf?: TokenLogRatio | undefined; clips?: boolean },
): Term {
  const { correction, logRatioOf = plain, clips = false } = options;
  return (sequence, weight, gradients, metrics) => {
    const { logprobs, advantages } = sequence;
    const logRatio = logRatioOf(sequence);
    const mismatch = tokenCorrection(sequence, correction, metrics);
    let loss = 0;
    let ratios = 0;
    let ratioMax = 0;
    let clipped = 0;
    for (let t = 0; t < logprobs.length; t++) {
      const point = pointOf(logRatio(t), advantages[t]!);
      const w = weight * (mismatch?.[t] ?? 1);
      loss += w * point.loss;
      gradients.logprobs[t]! += w * point.slope;
      ratios += point.ratio;
      ratioMax = Math.max(ratioMax, point.ratio);
      if (point.clipped) clipped++;
    }
    addMetric(metrics, "ratio", ratios, logprobs.length);
    maxMetric(metrics, "ratioMax", ratioMax);
    if (clips) addMetric(metrics, "clipFraction", clipped, logprobs.length);
    return loss;
  };
}
