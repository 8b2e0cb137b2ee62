/** What a chart is given, and the columns it is drawn from. */
import { smooth } from "./smooth.ts";

export interface ChartSeries {
  name: string;
  /** Rising. */
  x: ArrayLike<number>;
  /** NaN: there is a point, and its value is no number; the line has a gap. */
  y: ArrayLike<number>;
  /** The least and the most of the steps that a point stands for. */
  min?: ArrayLike<number>;
  max?: ArrayLike<number>;
  /** An interval or a spread around it. */
  low?: ArrayLike<number>;
  high?: ArrayLike<number>;
  /** Its place among the colours of lines; left out: its place in the list. */
  colour?: number;
  /** "points": single values, each with a whisker from low to high. Left out: a line. */
  kind?: "line" | "points";
  /** Points with a thin line from each to the next. */
  joined?: boolean;
}

export type Role = "min" | "max" | "low" | "high" | "raw" | "line" | "points" | "base" | "top";

export interface ChartColumns {
  x: number[];
  /** null: a gap; undefined: this series has nothing at this x, and a line goes on over it. */
  columns: { series: number; role: Role; values: (number | null | undefined)[] }[];
}

export interface ChartDataOptions {
  /** The weight of what came before, 0 to 0.99; above 0 the line is smoothed and the raw one stays behind it. */
  smoothing?: number;
  /** Areas on top of each other instead of lines. */
  stack?: boolean;
  /** What cannot stand on a logarithmic axis is left out. */
  log?: boolean;
}

export function chartColumns(series: readonly ChartSeries[], options: ChartDataOptions = {}): ChartColumns {
  const lists = series.map((one) => one.x);
  // Runs of equal steps, as most that are compared, need no place looked up for each of their points.
  const shared = lists.every((list) => list === lists[0]);
  const x = shared ? Array.from(lists[0] ?? []) : union(lists);
  const place = new Map(shared ? [] : x.map((value, i) => [value, i]));
  const spread = (xs: ArrayLike<number>, ys: ArrayLike<number>) => {
    const values: (number | null | undefined)[] = new Array(x.length).fill(undefined);
    for (let i = 0; i < xs.length; i++) {
      const y = ys[i]!;
      values[shared ? i : place.get(xs[i]!)!] = Number.isFinite(y) && !(options.log && y <= 0) ? y : null;
    }
    return values;
  };
  const weight = options.smoothing ?? 0;
  const smoothed = (values: ArrayLike<number>) => (weight > 0 ? smooth(values, weight) : values);
  if (options.stack) return { x, columns: stacked(series.map((one) => spread(one.x, smoothed(one.y)))) };
  const columns: ChartColumns["columns"] = [];
  series.forEach((one, i) => {
    const add = (role: Role, values: ArrayLike<number>) =>
      columns.push({ series: i, role, values: spread(one.x, values) });
    if (one.kind === "points") {
      if (one.low && one.high) {
        add("low", one.low);
        add("high", one.high);
      }
      add("points", one.y);
      return;
    }
    if (one.min && one.max) {
      add("min", one.min);
      add("max", one.max);
    }
    if (one.low && one.high) {
      add("low", smoothed(one.low));
      add("high", smoothed(one.high));
    }
    if (weight > 0) add("raw", one.y);
    add("line", smoothed(one.y));
  });
  return { x, columns };
}

/** Every x that any of them has, rising. */
function union(lists: readonly ArrayLike<number>[]): number[] {
  const all = new Set<number>();
  for (const list of lists) for (let i = 0; i < list.length; i++) all.add(list[i]!);
  return [...all].sort((a, b) => a - b);
}

/**
 * What adds lies above the ones before it, what takes away below them. Where a part is no number (null) there is a gap, for it and for what
 * would lie on it; a part that is not there (undefined) takes no room.
 */
function stacked(parts: readonly (number | null | undefined)[][]): ChartColumns["columns"] {
  const length = parts[0]?.length ?? 0;
  const above = new Float64Array(length);
  const below = new Float64Array(length);
  return parts.flatMap((values, series) => {
    const base: (number | null | undefined)[] = [];
    const top: (number | null | undefined)[] = [];
    for (let i = 0; i < length; i++) {
      const value = values[i];
      if (value === null) above[i] = below[i] = Number.NaN;
      if (value === null || value === undefined || Number.isNaN(above[i]!)) {
        base.push(value === undefined ? value : null);
        top.push(value === undefined ? value : null);
        continue;
      }
      const side = value < 0 ? below : above;
      base.push(side[i]!);
      side[i]! += value;
      top.push(side[i]!);
    }
    return [
      { series, role: "base" as const, values: base },
      { series, role: "top" as const, values: top },
    ];
  });
}

/** The index of the value nearest to x, or −1 where there is none. */
export function nearest(xs: ArrayLike<number>, x: number): number {
  let low = 0;
  let high = xs.length - 1;
  if (high < 0 || Number.isNaN(x)) return -1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle]! <= x) low = middle;
    else high = middle;
  }
  return x - xs[low]! <= xs[high]! - x ? low : high;
}
