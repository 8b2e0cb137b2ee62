/** Which curves a run is shown by, and in which order. */
import type { MetricInfo, RunData } from "../../../../stateset-agents/src/dashboard/api/index.ts";

/** What is looked at first, for learners of both kinds; those that the run has are shown. */
const usual = [
  "kl",
  "approxKl",
  "entropy",
  "clipFraction",
  "gradNorm",
  "replyTokens",
  "loss",
  "learningRate",
  "explainedVariance",
  "truncated",
  "constantGroups",
];

/** Ends of intervals and counts of evaluations: they are drawn with the evaluation, not by themselves. */
const ofEvaluations = /^(selection|report)\//;

export interface Charts {
  /** What the run is looked at for: drawn large, with its spread, evaluations and marks. */
  main: string | null;
  /** The same on what was held out, drawn beside it. */
  heldOut: string | null;
  /** Drawn on top of each other. */
  parts: string[];
  rest: string[];
  /** All that can be chosen for `rest`. */
  choice: MetricInfo[];
  /** Names with half of a character in them: no address can hold them, so they cannot be asked for. */
  unaskable: string[];
}

export function chooseCharts(run: Pick<RunData, "metrics" | "curve">, chosen: readonly string[] | undefined): Charts {
  const written = run.metrics.filter(({ count }) => count > 0);
  const unaskable = written.map(({ name }) => name).filter((name) => /\p{Surrogate}/u.test(name));
  const known = new Map(written.map((metric) => [metric.name, metric]));
  for (const name of unaskable) known.delete(name);
  const main = known.has(run.curve.metric) ? run.curve.metric : known.has("loss") ? "loss" : null;
  const parts = [...known.keys()].filter((name) => name.startsWith("part/"));
  const choice = [...known.values()].filter(({ name }) => name !== main && !name.startsWith("part/"));
  const heldOut = main === "loss" && known.has("held-out/loss") ? "held-out/loss" : null;
  const evaluated = choice.map(({ name }) => name).filter((name) => name.startsWith("held-out/") && !countOf(name));
  const rest = chosen ?? [...evaluated, ...usual].filter((name) => name !== main && name !== heldOut);
  return {
    unaskable,
    main,
    heldOut,
    parts,
    rest: rest.filter((name) => known.has(name)),
    choice: choice.filter((one) => !ofEvaluations.test(one.name)),
  };
}

const countOf = (name: string) => /\/(count|pairs|tokens|completions)$/.test(name);
