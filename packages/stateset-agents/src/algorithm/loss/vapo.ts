/**
 * VAPO: DAPO's surrogate (decoupled clip, token mean) with length-adaptive GAE, the value loss on λ = 1 targets, and
 * + μ·NLL on the tokens of successful samples, averaged over those tokens in the whole batch (self-imitation).
 * The critic is warmed up on Monte-Carlo returns before the policy moves (Algorithm.valueWarmupSteps).
 * Source: Yue et al., "VAPO: Efficient and Reliable Reinforcement Learning for Advanced Reasoning Tasks", 2025.
 * Left out: the separate value network; the value head shares the policy's trunk.
 */
import type { Advantages, LossFunction, Sequence } from "../algorithm.ts";
import { addMetric } from "../metrics.ts";
import { fromContext } from "./aggregation.ts";
import { type PpoLossOptions, ppoTerms } from "./ppo.ts";
import { sumTerms, type Term } from "./terms.ts";

export function vapoLoss(options: PpoLossOptions & { positiveCoefficient: number }): LossFunction {
  const terms = [...ppoTerms(options), positiveTerm(options.positiveCoefficient)];
  return (micro, counts) => sumTerms(micro, counts, "token-mean", terms);
}

function positiveTerm(coefficient: number): Term {
  return (sequence, weight, gradients, metrics) => {
    const share = coefficient * weight * fromContext(sequence, "positiveScale");
    if (share === 0) return 0;
    let nll = 0;
    for (let t = 0; t < sequence.logprobs.length; t++) {
      nll -= sequence.logprobs[t]!;
      gradients.logprobs[t]! -= share;
    }
    addMetric(metrics, "positiveNll", nll, sequence.logprobs.length);
    return share * nll;
  };
}

/**
 * positiveScale: tokens that learn / those of successful samples for these, 0 for others; it turns a token mean into one over them.
 * The threshold is of rewards as they are given: whether a conversation succeeded does not change with their scale.
 */
export function withPositiveScale(
  sequences: readonly Sequence[],
  advantages: readonly Advantages[],
  successThreshold: number,
): Advantages[] {
  const succeeded = ({ reward, givenReward = reward }: Sequence) => givenReward >= successThreshold;
  let tokens = 0;
  let positive = 0;
  for (const sequence of sequences) {
    if (sequence.masked) continue;
    tokens += sequence.old.length;
    if (succeeded(sequence)) positive += sequence.old.length;
  }
  return advantages.map((own, i) => {
    const scale = positive > 0 && succeeded(sequences[i]!) ? tokens / positive : 0;
    return { ...own, context: { ...own.context, positiveScale: scale } };
  });
}
