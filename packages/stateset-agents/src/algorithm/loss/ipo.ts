/**
 * IPO: (h − 1/(2β))² with h the margin of the *length-mean* log-ratios, mean over pairs. The margin has a target, so it cannot run away.
 * Source: Azar et al., "A General Theoretical Paradigm to Understand Learning from Human Preferences", 2023; the length mean as in TRL.
 */
import { marginLoss, type PreferenceLoss } from "./preference.ts";

export function ipoLoss({ beta = 0.1 }: { beta?: number } = {}): PreferenceLoss {
  const target = 1 / (2 * beta);
  return marginLoss("mean", beta, (margin) => ({ loss: (margin - target) ** 2, slope: 2 * (margin - target) }));
}
