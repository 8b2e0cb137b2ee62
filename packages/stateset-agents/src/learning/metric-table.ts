/** The numbers of learning from conversations, those of the losses among them. The whole table is in run/metrics.ts. */
import { preferenceLossNames } from "../algorithm/loss/preference.ts";
import { algorithmMetrics, type Metric, type NumbersOf } from "../algorithm/metric-table.ts";

export type { Metric };

export const dataLearners = [
  "sft",
  ...preferenceLossNames,
  "reward-model",
  "value-function",
] as const satisfies Metric["learners"];

export const learningMetrics = {
  ...algorithmMetrics,
  learnedConversations: {
    meaning: "Conversations that carried gradient: those whose advantages are not all 0.",
    unit: "count",
    learners: ["rl"],
  },
  recalledConversations: {
    meaning:
      "Remembered conversations that joined a group whose scenario is lost (`recall`); only where there were any.",
    unit: "count",
    learners: ["rl"],
  },
  shapedReward: {
    meaning:
      "Mean reward once shaped (`rewardShaping`, DAPO's overlong penalty): what is learnt from; only where it is.",
    unit: "reward",
    learners: ["rl"],
  },
  maskedFailedCalls: {
    meaning: "Conversations left out because every call of a tool in them failed; only with `maskFailedCalls`.",
    unit: "count",
    learners: ["rl"],
  },
  sharedStates: {
    meaning:
      "Share of the replies that began from the same state as another of their group, and are compared with it; only with credit `state`.",
    unit: "share",
    learners: ["rl"],
  },
  entropyThreshold: {
    meaning: "The entropy from which on a token got a policy gradient; only with `entropyQuantile`.",
    unit: "nats",
    learners: ["rl"],
  },
  klCoefficient: {
    meaning: "Weight of the run's own KL penalty in the step; only where there is one.",
    unit: "number",
    learners: ["rl"],
  },
  firstRatioMax: {
    meaning:
      "The largest importance ratio before the first update: 1 where the policy that learns is the one that sampled.",
    unit: "ratio",
    learners: ["rl"],
  },
  undone: {
    meaning:
      "1 where the step moved the policy too far and was taken back; only with autoAdjust or another callback that adjusts the KL.",
    unit: "share",
    learners: ["rl"],
  },
  mismatch: {
    meaning: "Mean |log-prob difference| of sampler and trainer; only where they differ.",
    unit: "nats a token",
    learners: ["rl"],
  },
  mismatchMax: {
    meaning: "The largest |log-prob difference| of sampler and trainer; only where they differ.",
    unit: "nats",
    learners: ["rl"],
  },
  loss: {
    meaning:
      "What the update made smaller: on data the mean loss of the batch; by reinforcement that of the last update, which is no measure of success.",
    unit: "number",
    learners: ["rl", ...dataLearners],
  },
  gradNorm: {
    meaning: "Norm of the gradient before clipping, in the last update of the step.",
    unit: "norm",
    learners: ["rl", ...dataLearners],
  },
} as const satisfies Record<string, Metric>;

/** The metrics of learning; `own/<name>` is what an algorithm of your own reports under a name that is not in the table. */
export type LearningMetrics = NumbersOf<typeof learningMetrics> & { [own: `own/${string}`]: number };

/** Marks what an algorithm reports beyond the table, so that no name of a user's can stand for a number of the run. */
export function ownNames(means: Readonly<Record<string, number>>): LearningMetrics {
  const isKnown = ([name]: [string, number]) => Object.hasOwn(algorithmMetrics, name);
  const all = Object.entries(means);
  const named: LearningMetrics = Object.fromEntries(all.filter(isKnown));
  for (const [name, value] of all.filter((entry) => !isKnown(entry))) named[`own/${name}`] = value;
  return named;
}
