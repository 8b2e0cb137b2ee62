/**
 * Bradley–Terry reward model: −log σ(r_w − r_l − margin), mean over pairs; r is the scalar head at the last token.
 * Source: Bradley & Terry, 1952; Ouyang et al., "InstructGPT", 2022; the margin: Touvron et al., "Llama 2", 2023.
 * Left out: the centring penalty on r_w + r_l.
 */
import type { MetricSums } from "../algorithm.ts";
import { addMetric } from "../metrics.ts";
import { negativeLogSigmoid, sigmoid } from "./preference.ts";

export interface ScoredPair {
  chosen: number;
  rejected: number;
  /** By how much the chosen one should be better. Default 0. */
  margin?: number;
}

export function bradleyTerryLoss(
  micro: readonly ScoredPair[],
  counts: { pairs: number },
): { loss: number; dChosen: Float32Array; dRejected: Float32Array; metrics: MetricSums } {
  const metrics: MetricSums = {};
  const dChosen = new Float32Array(micro.length);
  const dRejected = new Float32Array(micro.length);
  let loss = 0;
  for (const [i, { chosen, rejected, margin = 0 }] of micro.entries()) {
    const gap = chosen - rejected - margin;
    loss += negativeLogSigmoid(gap) / counts.pairs;
    dChosen[i] = -sigmoid(-gap) / counts.pairs;
    dRejected[i] = sigmoid(-gap) / counts.pairs;
    addMetric(metrics, "accuracy", chosen > rejected ? 1 : 0);
    addMetric(metrics, "gap", chosen - rejected);
  }
  return { loss, dChosen, dRejected, metrics };
}

/**
 * How far stated probabilities are from frequencies. The model's confidence in its own ordering is c = max(p, 1−p), p = σ(r_w − r_l):
 * `expectedError` = Σ_bins n_bin/n·|accuracy − mean c| over equal-width bins of c in [½, 1]; `brier` = mean (1 − p)². Ties count as half right.
 */
export function calibration(pairs: readonly ScoredPair[], bins = 10): { expectedError: number; brier: number } {
  const byBin = Array.from({ length: bins }, () => ({ n: 0, confidence: 0, right: 0 }));
  let brier = 0;
  for (const { chosen, rejected } of pairs) {
    const p = sigmoid(chosen - rejected);
    const confidence = Math.max(p, 1 - p);
    const bin = byBin[Math.min(bins - 1, Math.floor((confidence - 0.5) * 2 * bins))]!;
    bin.n++;
    bin.confidence += confidence;
    bin.right += p > 0.5 ? 1 : p === 0.5 ? 0.5 : 0;
    brier += (1 - p) ** 2 / pairs.length;
  }
  const expectedError = byBin.reduce((sum, bin) => sum + Math.abs(bin.right - bin.confidence) / pairs.length, 0);
  return { expectedError, brier };
}
