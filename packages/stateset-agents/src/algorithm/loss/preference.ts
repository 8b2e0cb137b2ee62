/** What the losses of preferences share: replies scored under policy and reference on reply tokens only; in pairs but for KTO. */
import type { MetricSums } from "../algorithm.ts";
import { addMetric } from "../metrics.ts";

/** Log-probs of the tokens the assistant wrote, over all turns of the reply. */
export interface PreferenceSide {
  logprobs: Float32Array;
  ref: Float32Array;
}

/** The losses of trainPreference(). */
export const preferenceLossNames = ["dpo", "robust", "hinge", "ipo", "orpo", "kto"] as const;
export type PreferenceLossName = (typeof preferenceLossNames)[number];

/** `labelSmoothing` is the share of labels taken to be wrong. */
export interface SmoothedOptions {
  beta?: number;
  labelSmoothing?: number;
}

export interface PreferencePair {
  chosen: PreferenceSide;
  rejected: PreferenceSide;
}

export interface PreferenceResult {
  /** This micro-batch's share of the mean over the pairs of the optimiser batch. */
  loss: number;
  dChosen: Float32Array[];
  dRejected: Float32Array[];
  metrics: MetricSums;
}

export type PreferenceLoss = (micro: readonly PreferencePair[], counts: { pairs: number }) => PreferenceResult;

/**
 * A loss of the margin h = m(chosen) − m(rejected), where m is the sum or the mean over a reply's tokens of logp − ref.
 * `point(h)` gives the loss of one pair and its slope in h. `beta` scales the implicit rewards that are reported.
 */
export function marginLoss(
  over: "sum" | "mean",
  beta: number,
  point: (margin: number) => { loss: number; slope: number },
): PreferenceLoss {
  return (micro, counts) => {
    const result: PreferenceResult = { loss: 0, dChosen: [], dRejected: [], metrics: {} };
    for (const { chosen, rejected } of micro) {
      const [up, down] = [logRatio(chosen, over), logRatio(rejected, over)];
      const { loss, slope } = point(up.value - down.value);
      result.loss += loss / counts.pairs;
      result.dChosen.push(new Float32Array(chosen.logprobs.length).fill((slope * up.slope) / counts.pairs));
      result.dRejected.push(new Float32Array(rejected.logprobs.length).fill((-slope * down.slope) / counts.pairs));
      addMetric(result.metrics, "accuracy", up.value > down.value ? 1 : 0);
      addMetric(result.metrics, "margin", beta * (up.value - down.value));
      addMetric(result.metrics, "chosenReward", beta * up.value);
      addMetric(result.metrics, "rejectedReward", beta * down.value);
    }
    return result;
  };
}

/** Σ (logp − ref), or its mean, and the derivative with respect to each log-prob. */
function logRatio(side: PreferenceSide, over: "sum" | "mean"): { value: number; slope: number } {
  const slope = over === "sum" ? 1 : 1 / Math.max(1, side.logprobs.length);
  return { value: rewardOf(side) * slope, slope };
}

/** Σ (logp − ref): the implicit reward, before β. */
export function rewardOf({ logprobs, ref }: PreferenceSide): number {
  let sum = 0;
  for (let t = 0; t < logprobs.length; t++) sum += logprobs[t]! - ref[t]!;
  return sum;
}

/** −log σ(x) without overflow. */
export function negativeLogSigmoid(x: number): number {
  return x >= 0 ? Math.log1p(Math.exp(-x)) : -x + Math.log1p(Math.exp(x));
}

export function sigmoid(x: number): number {
  return x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x));
}
