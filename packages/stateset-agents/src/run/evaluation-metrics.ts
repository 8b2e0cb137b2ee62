import type { EvaluationResult, FactOf } from "./event.ts";

/** How an evaluation stands in metrics.jsonl. */
export function evaluationMetrics(evaluation: FactOf<"evaluation">): Record<string, number> {
  const { set } = evaluation;
  const named = (numbers: Record<string, number>, under = set as string) =>
    Object.fromEntries(Object.entries(numbers).map(([name, value]) => [`${under}/${name}`, value]));
  if (evaluation.set === "held-out") return named(evaluation.numbers);
  const { reward, parts, failed, partFailures = {} } = evaluation;
  return {
    ...named({ reward: reward.mean, low: reward.low, high: reward.high, failed }),
    ...named(parts, `${set}/part`),
    ...named(partFailures, `${set}/partFailures`),
  };
}

/** Its lines in evaluations.jsonl: one a scenario, or one in all where data were scored. */
export function evaluationLines(evaluation: EvaluationResult): object[] {
  const { step, set } = evaluation;
  if (evaluation.set === "held-out") return [{ step, set, ...evaluation.numbers }];
  return evaluation.scenarios.map(({ id, ...score }) => ({ step, set, scenario: id, ...score }));
}
