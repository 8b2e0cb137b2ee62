/**
 * KTO: completions labelled desirable or not, without pairs. r = Σ(logp − ref) over the reply's tokens;
 *   desirable: w_D·(1 − σ(β(r − z))),  undesirable: w_U·(1 − σ(β(z − r))),  mean over completions.
 * z = max(0, mean of Σ(logp − ref) over prompts with completions of *other* prompts) estimates the KL of policy to reference; no gradient.
 * Source: Ethayarajh et al., "KTO: Model Alignment as Prospect Theoretic Optimization", 2024.
 */
import type { MetricSums } from "../algorithm.ts";
import { addMetric } from "../metrics.ts";
import { type PreferenceSide, rewardOf, sigmoid } from "./preference.ts";

export interface KtoOptions {
  beta?: number;
  desirableWeight?: number;
  undesirableWeight?: number;
}

export interface LabelledSide extends PreferenceSide {
  desirable: boolean;
}

export interface KtoResult {
  /** This micro-batch's share of the mean over the completions of the optimiser batch. */
  loss: number;
  dLogprobs: Float32Array[];
  metrics: MetricSums;
}

/** `baseline` is z, of the whole optimiser batch. */
export type KtoLoss = (micro: readonly LabelledSide[], counts: { completions: number }, baseline: number) => KtoResult;

export function ktoLoss({ beta = 0.1, desirableWeight = 1, undesirableWeight = 1 }: KtoOptions = {}): KtoLoss {
  return (micro, counts, baseline) => {
    const result: KtoResult = { loss: 0, dLogprobs: [], metrics: {} };
    for (const side of micro) {
      const weight = (side.desirable ? desirableWeight : undesirableWeight) / counts.completions;
      const reward = rewardOf(side);
      const sign = side.desirable ? 1 : -1;
      const worth = sigmoid(sign * beta * (reward - baseline));
      const slope = -sign * weight * beta * worth * (1 - worth);
      result.loss += weight * (1 - worth);
      result.dLogprobs.push(new Float32Array(side.logprobs.length).fill(slope));
      addMetric(result.metrics, side.desirable ? "chosenReward" : "rejectedReward", beta * reward);
    }
    return result;
  };
}

/** z of the mismatched completions of a batch; 0 where there are none. */
export function klBaseline(mismatched: readonly PreferenceSide[]): number {
  if (mismatched.length === 0) return 0;
  return Math.max(0, mismatched.reduce((sum, side) => sum + rewardOf(side), 0) / mismatched.length);
}
