/**
 * DPO: −log σ(β·h), h = Σ(logp − ref)_chosen − Σ(logp − ref)_rejected, sums over reply tokens, mean over pairs.
 * With label smoothing ε (conservative DPO): −(1−ε)·log σ(βh) − ε·log σ(−βh), whose best margin is finite: σ(βh) = 1 − ε.
 * Source: Rafailov et al., "Direct Preference Optimization", 2023; smoothing: Mitchell, "A note on DPO with noisy preferences", 2023.
 * Left out: length normalisation.
 */
import { marginLoss, negativeLogSigmoid, type PreferenceLoss, type SmoothedOptions, sigmoid } from "./preference.ts";

export function dpoLoss({ beta = 0.1, labelSmoothing: noise = 0 }: SmoothedOptions = {}): PreferenceLoss {
  return marginLoss("sum", beta, (margin) => {
    const x = beta * margin;
    return {
      loss: (1 - noise) * negativeLogSigmoid(x) + noise * negativeLogSigmoid(-x),
      slope: beta * (noise * sigmoid(x) - (1 - noise) * sigmoid(-x)),
    };
  });
}
