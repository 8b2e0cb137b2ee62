/** Curves of a run as charts take them. */
import type {
  EvaluationsData,
  NumberColumn,
  Packed,
  SeriesHead,
} from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { type ChartSeries, nearest } from "../../chart/chart-data.ts";

export type SeriesData = Packed<SeriesHead>;

/** A metric's line, with the least and the most of the steps a point stands for where it stands for several. */
export function line(data: SeriesData, name: string, label = name, colour?: number): ChartSeries {
  const column = (part: string): NumberColumn => data.columns[`${name}.${part}`] ?? new Float32Array();
  const several = (data.head.metrics.find((metric) => metric.name === name)?.span ?? 1) > 1;
  return {
    name: label,
    x: column("x"),
    y: column("mean"),
    ...(several && { min: column("min"), max: column("max") }),
    ...(colour !== undefined && { colour }),
  };
}

/** The same with another metric below and above it: rewards ± their spread within groups. */
export function withSpread(main: ChartSeries, spread: ChartSeries): ChartSeries {
  if (spread.x.length === 0) return main;
  const around = (sign: number) =>
    Float64Array.from(main.x, (x, i) => main.y[i]! + sign * (spread.y[nearest(spread.x, x)] ?? Number.NaN));
  return { ...main, low: around(-1), high: around(1) };
}

/** Whether parts make up a whole at every point, so that they can stand on top of each other. */
export function addUp(parts: readonly ChartSeries[], whole: ChartSeries): boolean {
  return Array.from(whole.x).every((x, i) => {
    const total = whole.y[i]!;
    const sum = parts.reduce((all, one) => all + (one.y[nearest(one.x, x)] ?? Number.NaN), 0);
    // What is no number contradicts nothing. Means of many steps are of 32 bits.
    return (
      !Number.isFinite(total) || !Number.isFinite(sum) || Math.abs(sum - total) <= 1e-3 * Math.max(1, Math.abs(total))
    );
  });
}

/** Evaluations of one set, with their intervals. `place`: where a step lies on the axis. */
export function evaluationPoints(
  { evaluations }: EvaluationsData,
  set: "selection" | "report",
  place: (step: number) => number,
  colour: number,
): ChartSeries | undefined {
  const found = evaluations.filter((one) => one.set === set && one.reward?.mean != null);
  if (found.length === 0) return undefined;
  const ends = (end: "low" | "high") => found.map(({ reward }) => reward![end] ?? Number.NaN);
  return {
    name: set === "report" ? "held out, reported" : "held out, selects",
    kind: "points",
    colour,
    x: found.map(({ step }) => place(step)),
    y: found.map(({ reward }) => reward!.mean!),
    low: ends("low"),
    high: ends("high"),
  };
}

/** Where steps lie on an axis of time or tokens: by a metric that was asked for over both. Outside of it: at its end. */
export function stepPlaces(bySteps: ArrayLike<number>, byAxis: ArrayLike<number>): (step: number) => number {
  return (step) => {
    const last = Math.min(bySteps.length, byAxis.length) - 1;
    if (last < 0) return step;
    if (step <= bySteps[0]!) return step <= 0 ? 0 : byAxis[0]!;
    let i = nearest(bySteps, step);
    if (i >= last && step >= bySteps[last]!) return byAxis[last]!;
    if (bySteps[i]! > step) i--;
    const share = (step - bySteps[i]!) / (bySteps[i + 1]! - bySteps[i]!);
    return byAxis[i]! + share * (byAxis[i + 1]! - byAxis[i]!);
  };
}
