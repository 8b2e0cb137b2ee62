/** Advantages that differ from token to token: with a value head, or as discounted returns. */

import { mean } from "../../../algorithm/advantage/batch.ts";
import { gae } from "../../../algorithm/advantage/gae.ts";
import { adaptiveLambda } from "../../../algorithm/advantage/length-adaptive-gae.ts";
import { discountedReturns, penalise } from "../../../algorithm/advantage/reinforce-plus-plus.ts";
import { tokenRewards } from "../../../algorithm/advantage/turn-credit.ts";
import { type JsonObject, numberAt } from "../json-file.ts";
import { type Compared, recordedAdvantage } from "./compared.ts";
import { type Explained, show } from "./why.ts";

const whitened =
  "All tokens of the batch are then centred and divided by their spread: A = (Â − mean) / std of the batch.";

export function explainValues(compared: readonly Compared[], algorithm: JsonObject): Explained {
  const name = algorithm.algorithm as string;
  const turns = algorithm.level === "turn";
  const gamma = numberAt(algorithm, "gamma") ?? (turns ? 0.99 : 1);
  const beta = algorithm.klIn === "reward" || algorithm.klIn === undefined ? (numberAt(algorithm, "beta") ?? 0) : 0;
  const nSteps = numberAt(algorithm, "nSteps");
  const lambdaOf = (length: number) =>
    name === "vapo"
      ? adaptiveLambda(length, numberAt(algorithm, "lengthAlpha") ?? 0.05, numberAt(algorithm, "lambdaFloor") ?? 0.999)
      : (numberAt(algorithm, "lambda") ?? 1);
  const step = turns ? "reply" : "token";
  const lambdaText = name === "vapo" ? "λ = 1 − 1/(α·length)" : `λ = ${show(lambdaOf(1))}`;
  const formula =
    nSteps === null
      ? `δ_t = r_t + γ·V_{t+1} − V_t;  Â_t = Σ_k (γλ)^k·δ_{t+k}, a ${step} a step`
      : `Â_t = Σ_{k<${nSteps}} γ^k·r_{t+k} + γ^${nSteps}·V_{t+${nSteps}} − V_t`;
  return {
    formula,
    lines: [
      `γ = ${show(gamma)}${nSteps === null ? `, ${lambdaText}` : ""}`,
      beta > 0
        ? `r_t = −${show(beta)}·(log π − log π_ref) on each token, and the reward on the last`
        : "r_t is 0 but on the last token of a reply, which has its reward",
    ],
    members: compared.map(({ member, sequence }) => {
      const recorded = recordedAdvantage(member);
      const { oldValues } = sequence;
      const reward = `r = ${show(sequence.reward)}`;
      if (!oldValues || recorded.length === 0) return reward;
      const last = recorded.length - 1;
      const raw =
        turns || nSteps !== null
          ? undefined
          : gae(penalise(tokenRewards(sequence), sequence, beta), oldValues, gamma, lambdaOf(recorded.length));
      const ends = (numbers: ArrayLike<number>) => `${show(numbers[0]!)} … ${show(numbers[last]!)}`;
      return `${reward}, V = ${ends(oldValues)}${raw ? `, Â = ${ends(raw)}` : ""} → A = ${ends(recorded)}`;
    }),
    note: `${algorithm.whiten === false ? "" : `${whitened} `}First and last token are shown. The values recorded are those of the last pass over the step: with several updates a rollout the first pass, which advantages are made of, had others.`,
  };
}

export function explainReturns(compared: readonly Compared[], algorithm: JsonObject): Explained {
  const [beta, gamma] = [numberAt(algorithm, "beta") ?? 0, numberAt(algorithm, "gamma") ?? 1];
  const centred = algorithm.baseline === "group";
  const centre = centred ? mean(compared.map(({ sequence }) => sequence.reward)) : 0;
  return {
    formula: `R_t = Σ_k ${gamma === 1 ? "" : "γ^k·"}r_{t+k};  A_t = (R_t − mean of the batch's tokens) / std of the batch's tokens`,
    lines: [
      `r_t = ${beta > 0 ? `−${show(beta)}·(log π − log π_ref) on each token, and ` : ""}the reward${centred ? ` less the group's mean ${show(centre)}` : ""} on the last`,
      ...(gamma === 1 ? [] : [`γ = ${show(gamma)}`]),
    ],
    members: compared.map(({ member, sequence }) => {
      const returns = discountedReturns(
        penalise(tokenRewards(sequence, sequence.reward - centre), sequence, beta),
        gamma,
      );
      const recorded = recordedAdvantage(member);
      const last = returns.length - 1;
      const text = `R = ${show(returns[0] ?? sequence.reward)} … ${show(returns[last] ?? sequence.reward)}`;
      return recorded.length === 0 ? text : `${text} → A = ${show(recorded[0]!)} … ${show(recorded[last]!)}`;
    }),
    note: "Centred and scaled over all tokens of the batch, of which this group is a part. First and last token are shown.",
  };
}
