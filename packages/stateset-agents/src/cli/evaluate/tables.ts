import { counted } from "../../counted.ts";
import type { Estimate } from "../../evaluation/estimate.ts";
import type { Comparison, Evaluation } from "../../evaluation/evaluate.ts";
import { fewestPairs } from "../../evaluation/paired-test.ts";
import { intervalText, number, table } from "../../telemetry/format.ts";
import { type CliIo, colorsOf } from "../io.ts";

const cells = (estimate: Estimate) => [number(estimate.mean), intervalText(estimate), String(estimate.count)];

export function evaluationLines(evaluation: Evaluation, io: CliIo): string[] {
  const colors = colorsOf(io);
  const { reward, parts, words, scenarios, failed, lost, failures, partFailures, stub } = evaluation;
  const measures = [
    [colors.bold("reward"), ...cells(reward)],
    ...Object.entries(parts).map(([name, estimate]) => [`  ${name}`, ...cells(estimate)]),
    ["words per reply", ...cells(words)],
  ];
  const worst = [...scenarios].sort((a, b) => a.mean - b.mean);
  return [
    ...table(["measure", "mean", "95% interval", "n"], measures, colors.dim),
    "",
    ...table(
      ["scenario", "reward", "± spread", "words", "samples"],
      worst.map(({ id, mean, spread, words: w, samples }) => [
        id,
        number(mean),
        number(spread),
        w.toFixed(1),
        String(samples),
      ]),
      colors.dim,
    ),
    "",
    colors.dim(
      [
        `${counted(scenarios.length, "scenario")}, hardest first`,
        ...(failed > 0 ? [`in ${counted(failed, "conversation")} the environment threw at a reply, which counts`] : []),
        ...(lost > 0
          ? [`${lost === 1 ? "1 conversation was lost and is" : `${lost} conversations were lost and are`} not counted`]
          : []),
      ].join("; "),
    ),
    ...failures.map((message) => colors.yellow(`! ${message}`)),
    ...Object.entries(partFailures).map(([name, count]) =>
      colors.yellow(`! The part "${name}" of the reward failed in ${counted(count, "conversation")}, not in its mean.`),
    ),
    ...(stub ? [colors.yellow("A stub made these replies up: the numbers say nothing about a model.")] : []),
  ];
}

export function comparisonLines(
  a: Evaluation,
  b: Evaluation,
  { reward, scenarios }: Comparison,
  names: { a: string; b: string },
  io: CliIo,
): string[] {
  const colors = colorsOf(io);
  const partNames = [...new Set([...Object.keys(a.parts), ...Object.keys(b.parts)])];
  const row = (name: string, left: Estimate | undefined, right: Estimate | undefined) => [
    name,
    left ? number(left.mean) : "–",
    right ? number(right.mean) : "–",
    left && right ? signed(right.mean - left.mean) : "–",
  ];
  const { difference, pValue, verdict, wins } = reward;
  const chance = pValue < 0.001 ? "p < 0.001" : `p = ${pValue.toFixed(3)}`;
  const conclusion =
    verdict === "same"
      ? colors.yellow(`Chance explains the difference (${chance}).`)
      : verdict === "unknown"
        ? colors.yellow(`${scenarios.length} scenarios cannot tell: it takes at least ${fewestPairs()}.`)
        : colors.green(`${verdict} is better (${chance}).`);
  return [
    `a  ${names.a}`,
    `b  ${names.b}`,
    "",
    ...table(
      ["measure", "a", "b", "b − a"],
      [
        row(colors.bold("reward"), a.reward, b.reward),
        ...partNames.map((name) => row(`  ${name}`, a.parts[name], b.parts[name])),
        row("words per reply", a.words, b.words),
      ],
      colors.dim,
    ),
    "",
    `b − a  ${signed(difference.mean)}${verdict === "unknown" ? "" : ` ${intervalText(difference, signed)}`} over ${scenarios.length} scenarios`,
    `wins   b ${wins.b}, a ${wins.a}, ties ${wins.ties}`,
    conclusion,
    ...(a.stub || b.stub
      ? [colors.yellow("A stub made these replies up: the numbers say nothing about a model.")]
      : []),
  ];
}

function signed(value: number): string {
  return `${value >= 0 ? "+" : "-"}${number(Math.abs(value))}`;
}
