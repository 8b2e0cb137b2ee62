/** The clipped surrogate on every token, times the mismatch weight where sampler and trainer differ. */
import { type Correction, tokenCorrection } from "../correction.ts";
import { addMetric, maxMetric } from "../metrics.ts";
import { type Clip, surrogate } from "./surrogate.ts";
import type { Term } from "./terms.ts";

export function tokenSurrogate(clip?: Clip, correction?: Correction): Term {
  return (sequence, weight, gradients, metrics) => {
    const { logprobs, old, advantages } = sequence;
    const mismatch = tokenCorrection(sequence, correction, metrics);
    let loss = 0;
    let ratios = 0;
    let ratioMax = 0;
    let clipped = 0;
    for (let t = 0; t < logprobs.length; t++) {
      const point = surrogate(logprobs[t]! - old[t]!, advantages[t]!, clip);
      const w = weight * (mismatch?.[t] ?? 1);
      loss += w * point.loss;
      gradients.logprobs[t]! += w * point.slope;
      ratios += point.ratio;
      ratioMax = Math.max(ratioMax, point.ratio);
      if (point.clipped) clipped++;
    }
    addMetric(metrics, "ratio", ratios, logprobs.length);
    maxMetric(metrics, "ratioMax", ratioMax);
    if (clip) addMetric(metrics, "clipFraction", clipped, logprobs.length);
    return loss;
  };
}
