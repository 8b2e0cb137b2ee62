/**
 * ORPO: −l_w − β·log σ(logit(l_w) − logit(l_l)), mean over pairs, where l is the mean log-prob of a reply's tokens and
 * logit(l) = l − log(1 − e^l) the log of its odds. The first part imitates the chosen reply, the second tells the two apart; no reference.
 * β is the paper's λ. As l comes near 0 its odds are infinite: in the odds l counts as at most −1e-6.
 * Source: Hong et al., "ORPO: Monolithic Preference Optimization without Reference Model", 2024. Left out: imitating the prompt, as the
 * authors' code does; only the assistant's tokens after the prompt count here.
 */
import { mean } from "../advantage/batch.ts";
import { addMetric } from "../metrics.ts";
import { negativeLogSigmoid, type PreferenceLoss, type PreferenceResult, sigmoid } from "./preference.ts";

const mostLogprob = -1e-6;

export function orpoLoss({ beta = 0.1 }: { beta?: number } = {}): PreferenceLoss {
  return (micro, counts) => {
    const result: PreferenceResult = { loss: 0, dChosen: [], dRejected: [], metrics: {} };
    for (const { chosen, rejected } of micro) {
      const [up, down] = [mean(chosen.logprobs), mean(rejected.logprobs)];
      const [better, worse] = [logOdds(up), logOdds(down)];
      const x = better.value - worse.value;
      const pull = beta * sigmoid(-x);
      const fill = ({ logprobs }: { logprobs: Float32Array }, slope: number) =>
        new Float32Array(logprobs.length).fill(slope / (counts.pairs * Math.max(1, logprobs.length)));
      result.loss += (beta * negativeLogSigmoid(x) - up) / counts.pairs;
      result.dChosen.push(fill(chosen, -1 - pull * better.slope));
      result.dRejected.push(fill(rejected, pull * worse.slope));
      addMetric(result.metrics, "accuracy", up > down ? 1 : 0);
      addMetric(result.metrics, "margin", beta * (up - down));
      addMetric(result.metrics, "chosenReward", beta * up);
      addMetric(result.metrics, "rejectedReward", beta * down);
    }
    return result;
  };
}

/** log(p / (1 − p)) of p = e^l, and its slope in l, 1 / (1 − p); 0 beyond the bound, where the value no longer moves. */
function logOdds(logprob: number): { value: number; slope: number } {
  const l = Math.min(logprob, mostLogprob);
  const rest = -Math.expm1(l);
  return { value: l - Math.log(rest), slope: logprob > mostLogprob ? 0 : 1 / rest };
}
