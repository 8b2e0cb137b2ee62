/** The curves of a run: what it is looked at for, what that is made of, and the rest. */
import { useMemo } from "preact/hooks";
import type { EvaluationsData, RunData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { type ChartMark, LineChart, type XAxis } from "../../chart/line-chart.tsx";
import { useZoom } from "../../chart/zoom.tsx";
import { splitNames } from "../../data/list.ts";
import { link, place } from "../../data/url.ts";
import { Loading } from "../parts/loading.tsx";
import { Problem, Problems } from "../parts/problem.tsx";
import { ChartBar } from "./chart-bar.tsx";
import { chooseCharts } from "./choose-charts.ts";
import { folded, type Happening, nearestStep } from "./marks.ts";
import { addUp, evaluationPoints, line, withSpread } from "./series.ts";
import { useSeries } from "./use-series.ts";

interface Props {
  run: RunData;
  happenings: readonly Happening[];
  evaluations: EvaluationsData | undefined;
  changes: number;
}

export function Curves({ run, happenings, evaluations, changes }: Props) {
  const { x: wanted, smooth, log: logged, from, to, metrics } = place.value.query;
  const x: XAxis = wanted === "time" || wanted === "tokens" ? wanted : "step";
  // A curve of few points is shown as it is.
  const smoothing = Math.min(Math.max(Number(smooth ?? (run.step >= 30 ? 0.6 : 0)) || 0, 0), 0.99);
  const log = logged === "1";
  const charts = useMemo(
    () => chooseCharts(run, metrics === undefined ? undefined : metrics === "none" ? [] : splitNames(metrics)),
    [run, metrics],
  );
  const { main, parts, rest } = charts;
  const spread = run.metrics.some(({ name, count }) => name === "groupStd" && count > 0);
  const names = useMemo(
    () => [
      ...new Set(
        [main, charts.heldOut, main === "reward" && spread ? "groupStd" : null, ...parts, ...rest].filter(
          (name) => name !== null,
        ),
      ),
    ],
    [charts, spread],
  );
  const series = useSeries(run.key, { metrics: names, x, from, to }, changes);
  const answer = series.data;
  const zoom = useZoom();
  const marks = useMemo(
    () => (answer ? folded(happenings).map((one) => markOf(one, run, answer.place)) : []),
    [happenings, answer, run],
  );
  const lines = useMemo(() => {
    if (!answer) return undefined;
    const { data } = answer;
    const drawn = main === null ? [] : [line(data, main, main, 0)];
    if (main === "reward" && spread) drawn[0] = withSpread(drawn[0]!, line(data, "groupStd"));
    if (charts.heldOut !== null) drawn.push(line(data, charts.heldOut, "held out", 1));
    const sets = main === "reward" && evaluations ? (["selection", "report"] as const) : [];
    sets.forEach((set, i) => {
      const points = evaluationPoints(evaluations!, set, answer.place, i + 1);
      if (points) drawn.push(points);
    });
    const made = parts.map((name, i) => line(data, name, name.slice("part/".length), i));
    return {
      main: drawn,
      parts: made,
      stack: main === "reward" && addUp(made, drawn[0]!),
      rest: new Map(rest.map((name) => [name, [line(data, name, name, 0)]])),
    };
  }, [answer, evaluations, charts, spread]);
  const meaning = (name: string) => run.metrics.find((metric) => metric.name === name)?.meaning ?? "";
  const shared = {
    x,
    smoothing,
    marks,
    sync: `run ${run.key}`,
    allIn: "the CSV",
    ...zoom,
  };
  return (
    <div class="curves">
      <ChartBar run={run.key} x={x} smoothing={smoothing} log={log} charts={charts} />
      {series.error && <Problem error={series.error} />}
      <Problems
        list={charts.unaskable.map((where) => ({ where, message: "is a name with half of a character in it" }))}
      />
      {names.length === 0 && <p class="notice">No step has ended yet: curves begin with the first.</p>}
      {names.length > 0 && !lines && !series.error && <Loading what="Reading curves" />}
      {lines && (
        <div class="chart-grid">
          {main !== null && (
            <div class="wide">
              <LineChart
                {...shared}
                title={main === "reward" ? "Reward" : "Loss"}
                meaning={
                  main === "reward" && spread
                    ? `${meaning(main)} The band is ± the spread within groups.`
                    : meaning(main)
                }
                series={lines.main}
                {...(main === "reward" && { bounds: [0, 1] })}
                listMarks
                log={log}
                height={280}
              />
            </div>
          )}
          {parts.length > 1 && (
            <LineChart
              {...shared}
              title="Parts of the reward"
              meaning={
                lines.stack
                  ? "Mean of each part, on top of each other: they make up the reward."
                  : "Mean of each part, as it was measured: weights are not in it."
              }
              series={lines.parts}
              stack={lines.stack}
            />
          )}
          {parts.length === 1 && <LineChart {...shared} title={parts[0]!} series={lines.parts} log={log} />}
          {rest.map((name) => (
            <LineChart
              key={name}
              {...shared}
              title={name}
              meaning={meaning(name)}
              series={lines.rest.get(name) ?? []}
              log={log}
            />
          ))}
        </div>
      )}
    </div>
  );
}

function markOf(one: Happening, run: RunData, at: (step: number) => number): ChartMark {
  const { kind, name, text, step } = one;
  const near = nearestStep(run.recordedSteps, step);
  const query = { ...one.show, scenario: one.scenarioIds[0] };
  return {
    x: at(step),
    kind,
    text: kind === "adjustment" ? text : `${name}: ${text}`,
    ...(near !== undefined && { href: link(["run", run.key, "step", String(near)], query) }),
  };
}
