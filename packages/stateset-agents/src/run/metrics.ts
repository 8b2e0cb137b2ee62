/**
 * Every number a run writes: metrics.jsonl, trackers, the live view, the diagnostics and docs/reference/metrics.md use these names and no others.
 * A name that is read but not written is a type error. What losses and updates report is in the tables this one includes.
 */
import { dataLearners, learningMetrics, type Metric } from "../learning/metric-table.ts";
import type { StepMetrics } from "./event.ts";

const rl = ["rl"] as const;
const all = ["rl", ...dataLearners] as const;
const pairs = ["dpo", "robust", "hinge", "ipo", "orpo"] as const;
const preferences = [...pairs, "kto"] as const;

export const metrics = {
  reward: {
    meaning: "Mean reward of the step's conversations: the total each is learnt from.",
    unit: "reward",
    learners: rl,
  },
  rewardStd: { meaning: "Standard deviation of the rewards of the step.", unit: "reward", learners: rl },
  rewardMin: { meaning: "The lowest reward of the step.", unit: "reward", learners: rl },
  rewardMax: { meaning: "The highest reward of the step.", unit: "reward", learners: rl },
  groupStd: {
    meaning: "Standard deviation of the rewards within a group, mean over the groups.",
    unit: "reward",
    learners: rl,
  },
  constantGroups: {
    meaning:
      "Share of groups in which every conversation got the same reward: there is nothing to learn from them by comparison.",
    unit: "share",
    learners: rl,
  },
  conversations: { meaning: "Conversations that were played, rewarded and kept.", unit: "count", learners: rl },
  replies: { meaning: "Replies the agent sampled.", unit: "count", learners: rl },
  sampledTokens: { meaning: "Tokens the agent sampled.", unit: "tokens", learners: rl },
  replyTokens: { meaning: "Sampled tokens per reply.", unit: "tokens", learners: rl },
  truncated: { meaning: "Share of conversations with a reply cut at the token limit.", unit: "share", learners: rl },
  contextFull: {
    meaning: "Share of conversations that ended because the context was full.",
    unit: "share",
    learners: rl,
  },
  environmentFailures: {
    meaning: "Failures of the environment, those that a retry made up for included.",
    unit: "count",
    learners: rl,
  },
  failedConversations: {
    meaning: "Conversations in which the environment threw at a reply: they count, with the score of `onFailure`.",
    unit: "count",
    learners: rl,
  },
  environmentLost: { meaning: "Conversations lost to the environment.", unit: "count", learners: rl },
  rewardFailures: {
    meaning: "Conversations left out because the reward failed or was no number.",
    unit: "count",
    learners: rl,
  },
  hookFailures: {
    meaning: "Conversations lost to the agent's hooks; only where there were any.",
    unit: "count",
    learners: rl,
  },
  toolCalls: {
    meaning: "Calls of tools, also those that came to nothing; only where there were any.",
    unit: "count",
    learners: rl,
  },
  constrainedTokens: {
    meaning: "Sampled tokens for which `constrain` kept something from being drawn; only with it.",
    unit: "tokens",
    learners: rl,
  },
  forcedTokens: {
    meaning: "Those of them for which one choice was left: they do not learn; only with `constrain`.",
    unit: "tokens",
    learners: rl,
  },
  removedMass: {
    meaning:
      "Probability of what `constrain` kept from being drawn, a constrained token, in the distribution that log-probs are of; only with it.",
    unit: "share",
    learners: rl,
  },
  droppedGroups: { meaning: "Groups dropped because too few conversations were left.", unit: "count", learners: rl },
  refusedGroups: {
    meaning: "Groups the algorithm refused and had sampled anew (DAPO).",
    unit: "count",
    learners: rl,
  },
  samplingRounds: { meaning: "Rounds of sampling until the step had its groups.", unit: "count", learners: rl },
  ...learningMetrics,
  learningRate: { meaning: "The learning rate of the step.", unit: "number", learners: all },
  optimiserSteps: { meaning: "Updates made so far, in the whole run.", unit: "count", learners: all },
  notFinite: {
    meaning: "Updates skipped so far because a loss, gradient or reward was not finite.",
    unit: "count",
    learners: all,
  },
  stub: { meaning: "1 where the agent is a stub: nothing was learnt.", unit: "share", learners: rl },
  "selection/reward": {
    meaning: "Mean reward on the held-out scenarios that select the best checkpoint.",
    unit: "reward",
    learners: rl,
  },
  "selection/low": { meaning: "Lower end of its 95% interval.", unit: "reward", learners: rl },
  "selection/high": { meaning: "Upper end of its 95% interval.", unit: "reward", learners: rl },
  "selection/count": { meaning: "Scenarios of that evaluation.", unit: "count", learners: rl },
  "selection/failed": {
    meaning:
      "Conversations of that evaluation in which the environment threw at a reply; they count, with the score of `onFailure`.",
    unit: "count",
    learners: rl,
  },
  "selection/lost": {
    meaning: "Conversations of that evaluation that came to nothing and are in no number.",
    unit: "count",
    learners: rl,
  },
  "report/reward": {
    meaning: "Mean reward on the held-out scenarios that are only looked at, before the first step and after the last.",
    unit: "reward",
    learners: rl,
  },
  "report/low": { meaning: "Lower end of its 95% interval.", unit: "reward", learners: rl },
  "report/high": { meaning: "Upper end of its 95% interval.", unit: "reward", learners: rl },
  "report/count": { meaning: "Scenarios of that evaluation.", unit: "count", learners: rl },
  "report/failed": {
    meaning:
      "Conversations of that evaluation in which the environment threw at a reply; they count, with the score of `onFailure`.",
    unit: "count",
    learners: rl,
  },
  "report/lost": {
    meaning: "Conversations of that evaluation that came to nothing and are in no number.",
    unit: "count",
    learners: rl,
  },
  "held-out/loss": {
    meaning: "Loss on the held-out data.",
    unit: "nats",
    learners: ["sft", ...preferences, "reward-model"],
  },
  "held-out/perplexity": { meaning: "e to the loss on the held-out data.", unit: "number", learners: ["sft"] },
  "held-out/tokens": { meaning: "Assistant tokens of the held-out data.", unit: "tokens", learners: ["sft"] },
  "held-out/accuracy": {
    meaning: "Share of held-out pairs (or labels) it gets right; ties count half.",
    unit: "share",
    learners: [...preferences, "reward-model"],
  },
  "held-out/margin": {
    meaning: "Mean implicit reward of the chosen side (or the desirable completions) less that of the rejected one.",
    unit: "nats",
    learners: preferences,
  },
  "held-out/likelierChosen": {
    meaning: "Share of held-out pairs whose chosen side is the likelier one per token.",
    unit: "share",
    learners: pairs,
  },
  "held-out/pairs": { meaning: "Held-out pairs.", unit: "count", learners: pairs },
  "held-out/kl": {
    meaning: "KTO's estimate of the KL to the reference: what completions are compared with.",
    unit: "nats",
    learners: ["kto"],
  },
  "held-out/completions": { meaning: "Held-out completions.", unit: "count", learners: ["kto"] },
  "held-out/ece": {
    meaning: "Expected calibration error: how far stated probabilities are from how often it is right.",
    unit: "share",
    learners: ["reward-model"],
  },
  "held-out/brier": {
    meaning: "Mean squared error of the stated probabilities.",
    unit: "number",
    learners: ["reward-model"],
  },
  "held-out/count": { meaning: "Held-out examples.", unit: "count", learners: ["reward-model"] },
} as const satisfies Record<string, Metric>;

/** What begins so ends in a name that the table cannot know. */
export const metricFamilies = {
  "part/": { meaning: "Mean of one part of the reward.", unit: "reward", learners: rl },
  "selection/part/": { meaning: "The same on the scenarios that select.", unit: "reward", learners: rl },
  "report/part/": { meaning: "The same on the scenarios that are reported.", unit: "reward", learners: rl },
  "partFailures/": {
    meaning: "Conversations in which one part of the reward failed without failing the whole.",
    unit: "count",
    learners: rl,
  },
  "toolFailures/": {
    meaning:
      "Calls of tools that came to nothing, by kind: unknown_tool, invalid_json, invalid_arguments, denied, timeout, failed, too_large.",
    unit: "count",
    learners: rl,
  },
  "selection/partFailures/": { meaning: "The same on the scenarios that select.", unit: "count", learners: rl },
  "report/partFailures/": { meaning: "The same on the scenarios that are reported.", unit: "count", learners: rl },
  "held-out/": {
    meaning: "What else an evaluation on data says.",
    unit: "number",
    learners: ["sft", ...preferences, "reward-model"],
  },
  "own/": {
    meaning: "What an algorithm of your own reports under a name that is not in this table.",
    unit: "number",
    learners: rl,
  },
} as const satisfies Record<`${string}/`, Metric>;

export type MetricFamily = `${keyof typeof metricFamilies}${string}`;
export type MetricName = keyof typeof metrics | MetricFamily;

/** Numbers by their names. Any may be missing: that says there was nothing to report. */
export type Metrics = { -readonly [N in keyof typeof metrics]?: number } & { [F in MetricFamily]: number };

export function isMetricName(name: string): name is MetricName {
  return Object.hasOwn(metrics, name) || Object.keys(metricFamilies).some((family) => name.startsWith(family));
}

/**
 * The one gate to metrics.jsonl and the trackers. Only finite numbers, since JSON has no others; a name that is not in the table comes out
 * as `own/<name>`.
 */
export function finiteMetrics(step: number, ...records: readonly Readonly<Metrics>[]): StepMetrics {
  const named: StepMetrics = { step };
  for (const { step: _, ...record } of records as readonly Readonly<Record<string, number>>[]) {
    for (const [name, value] of Object.entries(record)) {
      const known: MetricName = isMetricName(name) ? name : `own/${name}`;
      if (Number.isFinite(value)) named[known] = value;
    }
  }
  return named;
}
