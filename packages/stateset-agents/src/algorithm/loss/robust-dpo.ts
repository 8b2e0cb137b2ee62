/**
 * Robust DPO: [−(1−ε)·log σ(βh) + ε·log σ(−βh)] / (1−2ε), h as in DPO, mean over pairs. Where a share ε of the labels is flipped, its
 * mean over the flips is the DPO loss of the true labels. It can be negative and has no lower bound: ε must be near the real share.
 * Source: Chowdhury et al., "Provably Robust DPO: Aligning Language Models with Noisy Feedback", 2024.
 */
import { marginLoss, negativeLogSigmoid, type PreferenceLoss, type SmoothedOptions, sigmoid } from "./preference.ts";

export function robustDpoLoss({ beta = 0.1, labelSmoothing: noise = 0 }: SmoothedOptions = {}): PreferenceLoss {
  const scale = 1 / (1 - 2 * noise);
  return marginLoss("sum", beta, (margin) => {
    const x = beta * margin;
    return {
      loss: scale * ((1 - noise) * negativeLogSigmoid(x) - noise * negativeLogSigmoid(-x)),
      slope: -scale * beta * ((1 - noise) * sigmoid(-x) + noise * sigmoid(x)),
    };
  });
}
