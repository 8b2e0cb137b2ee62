/**
 * A loss is a list of terms (policy surrogate, KL penalty, entropy bonus, value error, …) with one aggregation.
 * All arithmetic is in float64; derivatives are rounded to float32 once, at the end.
 */
import { StatesetError } from "../../error.ts";
import type { BatchCounts, LossResult, LossSequence, MetricSums, Needs } from "../algorithm.ts";
import { type KlEstimator, klPoint } from "../kl.ts";
import { addMetric } from "../metrics.ts";
import { type Aggregation, tokenWeight } from "./aggregation.ts";
import { clampLogRatio } from "./surrogate.ts";

/** Where terms of one sequence add their derivatives. `entropy` and `values` exist once a term has asked for them. */
export interface Gradients {
  logprobs: Float64Array;
  entropy?: Float64Array;
  values?: Float64Array;
}

/** Adds its derivatives and metrics; returns its share of the loss. `weight` is that of one token. */
export type Term = (sequence: LossSequence, weight: number, gradients: Gradients, metrics: MetricSums) => number;

export function sumTerms(
  micro: readonly LossSequence[],
  counts: BatchCounts,
  aggregation: Aggregation,
  terms: readonly Term[],
): LossResult {
  const metrics: MetricSums = {};
  const gradients: Gradients[] = [];
  let loss = 0;
  for (const sequence of micro) {
    const own: Gradients = { logprobs: new Float64Array(sequence.logprobs.length) };
    gradients.push(own);
    if (sequence.logprobs.length === 0) continue;
    observe(sequence, metrics);
    const weight = tokenWeight(aggregation, sequence, counts);
    for (const term of terms) loss += term(sequence, weight, own, metrics);
  }
  const collect = (key: "entropy" | "values") =>
    gradients.map((own) => (own[key] ? Float32Array.from(own[key]) : new Float32Array(own.logprobs.length)));
  const result: LossResult = { loss, dLogprobs: gradients.map((own) => Float32Array.from(own.logprobs)), metrics };
  if (gradients.some((own) => own.entropy)) result.dEntropy = collect("entropy");
  if (gradients.some((own) => own.values)) result.dValues = collect("values");
  return result;
}

/** What every loss reports: approxKl = k3 of the policy as the update found it against the one that sampled. */
function observe({ logprobs, old }: LossSequence, metrics: MetricSums): void {
  let approxKl = 0;
  for (let t = 0; t < logprobs.length; t++) {
    const logRatio = clampLogRatio(logprobs[t]! - old[t]!);
    approxKl += Math.expm1(logRatio) - logRatio;
  }
  addMetric(metrics, "approxKl", approxKl, logprobs.length);
}

/** A term that is asked for must not fall away in silence. */
function missing(term: string, what: string, need: keyof Needs): StatesetError {
  return new StatesetError("INVALID_DATA", `A loss with ${term} came without ${what}.`, {
    hint: `Set needs: { ${need}: true } on the algorithm.`,
  });
}

/** β·KL(π‖ref); β is a function where a controller moves it. With β = 0 it only reports the KL, when a reference is there. */
export function klTerm(beta: number | (() => number), estimator: KlEstimator = "k3"): Term {
  return ({ logprobs, ref }, weight, gradients, metrics) => {
    const now = typeof beta === "number" ? beta : beta();
    if (!ref) {
      if (now > 0) throw missing("a KL penalty", "the reference's log-probs", "reference");
      return 0;
    }
    const coefficient = now * weight;
    let sum = 0;
    for (let t = 0; t < logprobs.length; t++) {
      const { value, slope } = klPoint(logprobs[t]!, ref[t]!, estimator);
      sum += value;
      gradients.logprobs[t]! += coefficient * slope;
    }
    addMetric(metrics, "kl", sum, logprobs.length);
    return coefficient * sum;
  };
}

/** −c·H: keeps the policy from collapsing. */
export function entropyTerm(coefficient: number): Term {
  return ({ entropy }, weight, gradients) => {
    if (coefficient === 0) return 0;
    if (!entropy) throw missing("an entropy bonus", "entropies", "entropy");
    gradients.entropy ??= new Float64Array(entropy.length);
    let sum = 0;
    for (let t = 0; t < entropy.length; t++) {
      sum += entropy[t]!;
      gradients.entropy[t]! -= coefficient * weight;
    }
    return -coefficient * weight * sum;
  };
}

/** What every policy loss may have beside its surrogate. */
export interface PenaltyOptions {
  /** β of the KL penalty in the loss. Default 0. */
  beta?: number | (() => number) | undefined;
  klEstimator?: KlEstimator | undefined;
  entropyCoefficient?: number | undefined;
}

/** The terms of a policy loss: its own, a KL penalty and an entropy bonus. */
export function withPenalties(options: PenaltyOptions, ...own: Term[]): Term[] {
  const { beta = 0, klEstimator, entropyCoefficient = 0 } = options;
  return [...own, klTerm(beta, klEstimator), entropyTerm(entropyCoefficient)];
}
