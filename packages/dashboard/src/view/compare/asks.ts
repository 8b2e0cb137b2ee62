/** What the comparison of a place asks for. In a file of its own: it is asked before the view is loaded. */
import type { Query } from "../../data/ask.ts";
import { joinNames, splitNames } from "../../data/list.ts";
import type { Place } from "../../data/place.ts";
import { type Shown, shownOf } from "./show.ts";

export const askedRuns = (query: Place["query"]): string[] => [...new Set(splitNames(query.runs))];

interface SeriesAsked {
  runs: readonly string[];
  /** Undefined: the one that is shown first, which the server knows before the page does. */
  metric: string | undefined;
  x: string;
  shown: Shown;
  base: string;
}

export const compareQuery = (runs: readonly string[]): Query => ({ runs: joinNames(runs) });

export const seriesQuery = ({ runs, metric, x, shown, base }: SeriesAsked): Query => ({
  runs: joinNames(runs),
  metric,
  x,
  fold: shown === "runs" ? undefined : "seeds",
  base: shown === "difference" ? base : undefined,
});

/** Those of the first curve, and of all that is not a curve. */
export function compareAsks({ query }: Place): { path: string; query: Query }[] {
  const runs = askedRuns(query);
  if (runs.length === 0) return [];
  const [metric] = splitNames(query.metrics);
  const { x = "step", base = runs[0]! } = query;
  return [
    { path: "compare/series", query: seriesQuery({ runs, metric, x, shown: shownOf(query.show), base }) },
    { path: "compare", query: compareQuery(runs) },
  ];
}
