/** What curves show, as the address says it. */
import type { CompareData, CompareSeriesHead, Packed } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import type { ChartSeries } from "../../chart/chart-data.ts";

/** A curve a run; a family of runs that differ by their seed alone; differences from a family. */
export type Shown = "runs" | "seeds" | "difference";

export function shownOf(text: string | undefined): Shown {
  return text === "seeds" || text === "difference" ? text : "runs";
}

/** The run that others are held against: the one that was named, otherwise the first. */
export function baseOf(asked: string | undefined, runs: CompareData["runs"]): string {
  return runs.find(({ key }) => key === asked)?.key ?? runs[0]?.key ?? "";
}

/** Families as lines; a family has the colour of its first run. */
export function familySeries(
  { head, columns }: Packed<CompareSeriesHead>,
  colours: ReadonlyMap<string, number>,
): ChartSeries[] {
  return head.families.map(({ name, runs, x }, i): ChartSeries => {
    const colour = colours.get(runs[0] ?? "");
    const [low, high] = [columns[`${i}.low`], columns[`${i}.high`]];
    return {
      // A family is named by the server; a run alone by its key, as everywhere on this page.
      name: runs.length > 1 ? name : (runs[0] ?? name),
      x: columns[x] ?? new Float64Array(),
      y: columns[`${i}.mean`] ?? new Float32Array(),
      ...(low && high && { low, high }),
      ...(colour !== undefined && { colour }),
    };
  });
}
