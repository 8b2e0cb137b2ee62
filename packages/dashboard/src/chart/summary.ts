/** A chart in words, for whoever does not see it. */
import { number } from "../view/parts/number.ts";
import type { ChartSeries } from "./chart-data.ts";

export function summary(title: string, xName: string, series: readonly ChartSeries[]): string {
  const said = series.map((one) => `${one.name} ${course(one, xName)}`);
  return `${title}. ${said.length === 0 ? "No data" : said.join("; ")}.`;
}

function course({ x, y }: ChartSeries, xName: string): string {
  let first = -1;
  let last = -1;
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < y.length; i++) {
    const value = y[i]!;
    if (!Number.isFinite(value)) continue;
    if (first < 0) first = i;
    last = i;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (first < 0) return "has no values";
  if (first === last) return `is ${number(y[first])} at ${xName} ${number(x[first])}`;
  return `goes from ${number(y[first])} at ${xName} ${number(x[first])} to ${number(y[last])} at ${xName} ${number(x[last])}, between ${number(low)} and ${number(high)}`;
}
