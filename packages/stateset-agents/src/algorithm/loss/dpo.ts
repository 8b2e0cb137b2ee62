/**
 * DPO: −log σ(β·[Σ(logp − ref)_chosen − Σ(logp − ref)_rejected]), sums over reply tokens, mean over pairs.
 * Source: Rafailov et al., "Direct Preference Optimization", 2023. Left out: label smoothing, length normalisation.
 */
import { marginLoss, negativeLogSigmoid, type PreferenceLoss, sigmoid } from "./preference.ts";

export function dpoLoss({ beta = 0.1 }: { beta?: number } = {}): PreferenceLoss {
  return marginLoss("sum", beta, (margin) => ({
    loss: negativeLogSigmoid(beta * margin),
    slope: -beta * sigmoid(-beta * margin),
  }));
}
