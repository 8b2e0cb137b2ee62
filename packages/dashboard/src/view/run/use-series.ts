/** The curves a run is shown by, in one question. While a finer answer for a zoom is on its way, the one before is drawn. */
import { useRef } from "preact/hooks";
import type { SeriesHead } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import type { XAxis } from "../../chart/line-chart.tsx";
import { type ApiError, askPacked } from "../../data/ask.ts";
import { useFollowed } from "../../data/follow.ts";
import { joinNames } from "../../data/list.ts";
import { type SeriesData, stepPlaces } from "./series.ts";

export interface SeriesQuery {
  metrics: readonly string[];
  x: XAxis;
  from: string | undefined;
  to: string | undefined;
}

interface Answer {
  data: SeriesData;
  /** Where a step lies on the axis. */
  place(step: number): number;
}

export function useSeries(
  run: string,
  query: SeriesQuery,
  changes: number,
): { data: Answer | undefined; error: ApiError | undefined } {
  const { metrics, x, from, to } = query;
  const path = `runs/${encodeURIComponent(run)}/series`;
  const names = joinNames(metrics);
  const { data, error } = useFollowed(JSON.stringify([path, names, x, from, to]), changes, async (signal) => {
    const [first] = metrics;
    if (first === undefined) return undefined;
    const ask = (of: readonly string[], axis: XAxis, range: object) =>
      askPacked<SeriesHead>(path, { metrics: joinNames(of), x: axis, ...range }, signal);
    const [all, place] = await Promise.all([
      ask(metrics, x, { from, to }),
      x === "step"
        ? (step: number) => step
        : Promise.all([ask([first], "step", {}), ask([first], x, {})]).then(([steps, axis]) =>
            stepPlaces(steps.columns[`${first}.x`] ?? [], axis.columns[`${first}.x`] ?? []),
          ),
    ]);
    return { data: all, place };
  });
  const kept = useRef<{ of: string; data: Answer | undefined }>({ of: "", data: undefined });
  const of = `${run} ${x}`;
  if (data) kept.current = { of, data };
  return { data: data ?? (kept.current.of === of ? kept.current.data : undefined), error };
}
