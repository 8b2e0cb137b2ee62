/**
 * Hinge: max(0, 1 − β·h), h as in DPO, mean over pairs. A pair whose margin is beyond 1/β teaches nothing more.
 * Source: Zhao et al., "SLiC-HF", 2023, in the form Liu et al., "Statistical Rejection Sampling Improves Preference Optimization", 2023, give it.
 */
import { marginLoss, type PreferenceLoss } from "./preference.ts";

export function hingeLoss({ beta = 0.1 }: { beta?: number } = {}): PreferenceLoss {
  return marginLoss("sum", beta, (margin) => {
    const short = 1 - beta * margin;
    return short > 0 ? { loss: short, slope: -beta } : { loss: 0, slope: 0 };
  });
}
