import type { EvaluationResult, FactOf } from "./event.ts";
import type { Metrics } from "./metrics.ts";

/** How an evaluation stands in metrics.jsonl. */
export function evaluationMetrics(evaluation: FactOf<"evaluation">): Metrics {
  const metrics: Metrics = {};
  if (evaluation.set === "held-out") {
    for (const [name, value] of Object.entries(evaluation.numbers)) metrics[`held-out/${name}`] = value;
    return metrics;
  }
  const { set, reward, parts, failed, lost, partFailures = {} } = evaluation;
  metrics[`${set}/reward`] = reward.mean;
  if (reward.low !== undefined) {
    metrics[`${set}/low`] = reward.low;
    metrics[`${set}/high`] = reward.high;
  }
  metrics[`${set}/count`] = reward.count;
  metrics[`${set}/failed`] = failed;
  metrics[`${set}/lost`] = lost;
  for (const [name, value] of Object.entries(parts)) metrics[`${set}/part/${name}`] = value;
  for (const [name, value] of Object.entries(partFailures)) metrics[`${set}/partFailures/${name}`] = value;
  return metrics;
}

/** Its lines in evaluations.jsonl: one a scenario, or one in all where data were scored. */
export function evaluationLines(evaluation: EvaluationResult): object[] {
  const { step, set } = evaluation;
  if (evaluation.set === "held-out") return [{ step, set, ...evaluation.numbers }];
  return evaluation.scenarios.map(({ id, ...score }) => ({ step, set, scenario: id, ...score }));
}
