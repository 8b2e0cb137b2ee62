/** The numbers that losses report, by the names they have in metrics.jsonl. The whole table is in run/metrics.ts. */
import type { AlgorithmName } from "./algorithms.ts";
import type { PreferenceLossName } from "./loss/preference.ts";

/** One number of a run. */
export interface Metric {
  /** One sentence. */
  meaning: string;
  unit: MetricUnit;
  /** Who writes it; "rl" stands for every algorithm of train(). */
  learners: readonly MetricLearner[];
}

export type MetricLearner = "rl" | AlgorithmName | "sft" | PreferenceLossName | "reward-model" | "value-function";

/** "share" lies between 0 and 1; "reward" is whatever the reward counts in. */
export type MetricUnit =
  | "count"
  | "tokens"
  | "share"
  | "reward"
  | "nats"
  | "nats a token"
  | "ratio"
  | "norm"
  | "number";

const clipped = [
  "grpo",
  "dr-grpo",
  "bnpo",
  "dapo",
  "gspo",
  "gspo-token",
  "gepo",
  "cispo",
  "gmpo",
  "luspo",
  "ppo",
  "vapo",
  "reinforce++",
] as const satisfies readonly AlgorithmName[];
const withRatio = [...clipped, "sapo", "rloo", "trpo"] as const;
const withValues = ["ppo", "a2c", "vapo"] as const;

export const algorithmMetrics = {
  approxKl: {
    meaning:
      "How far the step moved the policy from the one that sampled, per token: the k3 estimate on four of its conversations, scored again after the last update.",
    unit: "nats a token",
    learners: ["rl"],
  },
  entropy: {
    meaning:
      "Entropy of the policy at its sampling temperature, estimated as the mean −log p of all tokens it sampled in the step; too low where top-p or the like leaves the unlikely ones out.",
    unit: "nats a token",
    learners: ["rl"],
  },
  kl: {
    meaning: "KL of the policy to the reference, per token; only where the run has a reference.",
    unit: "nats a token",
    learners: ["rl"],
  },
  ratio: {
    meaning: "Mean importance ratio, new policy over the one that sampled.",
    unit: "ratio",
    learners: withRatio,
  },
  ratioMax: { meaning: "The largest importance ratio of the step.", unit: "ratio", learners: withRatio },
  clipFraction: {
    meaning: "Share of tokens (or sequences) whose ratio the clip cut.",
    unit: "share",
    learners: clipped,
  },
  mismatchClipped: {
    meaning: "Share of tokens (or sequences) whose weight `correction` cut; only where sampler and trainer differ.",
    unit: "share",
    learners: ["rl"],
  },
  offPolicyMasked: {
    meaning: "Share of the conversations learnt from that `offPolicyMask` took out, at least in part.",
    unit: "share",
    learners: ["rl"],
  },
  value: { meaning: "Mean value the value head gives.", unit: "reward", learners: withValues },
  return: { meaning: "Mean return, which the value head is to predict.", unit: "reward", learners: withValues },
  valueError: { meaning: "Mean of value minus return: its bias.", unit: "reward", learners: withValues },
  valueLoss: { meaning: "Loss of the value head, per token.", unit: "number", learners: withValues },
  valueClipFraction: {
    meaning: "Share of tokens whose value the value clip cut.",
    unit: "share",
    learners: ["ppo", "vapo"],
  },
  explainedVariance: {
    meaning:
      "1 − Var(return − value) / Var(return) over the tokens that were learnt from: 1 where the value head predicts the returns, 0 or less where it is no better than a constant. Missing where the returns do not vary.",
    unit: "number",
    learners: withValues,
  },
  positiveNll: {
    meaning: "Negative log-likelihood of the conversations that did well.",
    unit: "nats a token",
    learners: ["vapo"],
  },
  trustRegionKl: {
    meaning: "KL of the step that was taken, at most `maxKl`.",
    unit: "nats a token",
    learners: ["trpo"],
  },
  trustRegionAccepted: {
    meaning: "1 where a step was taken, 0 where none was good.",
    unit: "share",
    learners: ["trpo"],
  },
  trustRegionBacktracks: { meaning: "How often the step was shortened.", unit: "count", learners: ["trpo"] },
  stepNorm: { meaning: "Length of the step in the space of the weights.", unit: "norm", learners: ["trpo"] },
} as const satisfies Record<string, Metric>;

/** Sums that losses keep and no run reports: moments, and what is read off the losses on data. */
type InnerSum =
  | "returnSquared"
  | "valueErrorSquared"
  | "nll"
  | "accuracy"
  | "margin"
  | "chosenReward"
  | "rejectedReward"
  | "gap";

/** What the losses of this library may add up. An algorithm of a user's own may name more; see `ownNames`. */
export type LossMetricName = keyof typeof algorithmMetrics | InnerSum;

/** Numbers by the names of a table. All may be missing. */
export type NumbersOf<Table> = { -readonly [N in keyof Table]?: number };
