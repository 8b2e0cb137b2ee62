/** Curves: the numbers of metrics.jsonl over steps, time or tokens. */
import { HttpError } from "../../server/http-error.ts";
import { didYouMean } from "../../suggest.ts";
import { type Axis, encodePacked, mostPoints, type NumberColumn as Packable, type SeriesHead } from "../api/index.ts";
import type { NumberColumn, NumberTable } from "./index/number-table.ts";
import { Pyramid } from "./index/pyramid.ts";
import type { RunTables } from "./index/run-index.ts";
import type { Query } from "./reader.ts";

const defaultPoints = 1000;

/** Where the points of a curve are. */
export interface Curve {
  span: number;
  x: Float64Array<ArrayBuffer>;
  min: Float32Array<ArrayBuffer>;
  max: Float32Array<ArrayBuffer>;
  mean: Float32Array<ArrayBuffer>;
}

export function seriesOf(tables: RunTables, query: Query): Uint8Array<ArrayBuffer> {
  const { metrics } = tables;
  const names = namesIn(query.metrics ?? "");
  const x = (query.x ?? "step") as Axis;
  const asked = query.points === undefined ? defaultPoints : Math.max(1, Number(query.points));
  const points = Math.min(asked, mostPoints);
  const along = axisOf(tables, x);
  const range = rowsBetween(along, metrics.rows, query);
  const columns: Record<string, Packable> = {};
  const curves = names.map((name) => {
    const curve = curveOf(columnOf(metrics, name), along, range, points);
    for (const part of ["x", "min", "max", "mean"] as const) columns[`${name}.${part}`] = curve[part];
    return { name, span: curve.span };
  });
  const head: SeriesHead = { x, capped: asked > mostPoints, metrics: curves };
  return encodePacked(head, columns);
}

/** Separated by commas; one that is part of a name is encoded. */
export function namesIn(text: string): string[] {
  const names = text.split(",").filter((name) => name !== "");
  return [...new Set(names.map(decoded))];
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

export function columnOf(table: NumberTable, name: string): NumberColumn {
  const column = table.get(name);
  if (column) return column;
  const known = table.columns.map((one) => one.name);
  const hint = known.length === 0 ? "It has no numbers yet." : didYouMean(name, known);
  throw new HttpError(400, `The run has no metric ${JSON.stringify(name)}. ${hint}`, {
    param: "metrics",
    code: "metric_unknown",
  });
}

/** Of each row, and never less than of the row before. */
export function axisOf({ metrics, timing }: RunTables, axis: Axis): Float64Array {
  const { rows, steps } = metrics;
  if (axis === "step") return steps.subarray(0, rows);
  const perStep = axis === "time" ? secondsOf(timing) : undefined;
  const sampled = metrics.get("sampledTokens");
  if (axis === "tokens" && sampled) return sums(rows, (row) => (sampled.has(row) ? sampled.values[row]! : 0));
  const learnt = perStep ?? tokensOf(timing);
  let at = 0;
  return sums(rows, (row) => {
    let sum = 0;
    for (; at < timing.rows && timing.steps[at]! <= steps[row]!; at++) sum += learnt(at);
    return sum;
  });
}

function sums(rows: number, of: (row: number) => number): Float64Array {
  let sum = 0;
  return Float64Array.from({ length: rows }, (_, row) => {
    const more = of(row);
    // A clock that was put back, or what is no number, stands still.
    if (more > 0 && Number.isFinite(more)) sum += more;
    return sum;
  });
}

function secondsOf(timing: NumberTable): (row: number) => number {
  const parts = ["rolloutMs", "updateMs", "otherMs"].flatMap((name) => timing.get(name) ?? []);
  return (row) => parts.reduce((sum, part) => sum + Math.max(0, part.has(row) ? part.values[row]! || 0 : 0), 0) / 1000;
}

/** What learners from data learnt from: their speed is that of updates. */
function tokensOf(timing: NumberTable): (row: number) => number {
  const [speed, ms] = [timing.get("tokensPerSecond"), timing.get("updateMs")];
  return (row) => (speed && ms ? (speed.values[row]! * ms.values[row]!) / 1000 : 0);
}

interface Rows {
  from: number;
  to: number;
}

function rowsBetween(along: Float64Array, rows: number, { from, to }: Query): Rows {
  const first = from === undefined ? 0 : lowerBound(along, rows, (value) => value >= Number(from));
  const last = to === undefined ? rows : lowerBound(along, rows, (value) => value > Number(to));
  return { from: first, to: Math.max(first, last) };
}

/** The first row of which it is true; it stays true from there on. */
function lowerBound(along: Float64Array, rows: number, is: (value: number) => boolean): number {
  let [low, high] = [0, rows];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (is(along[middle]!)) high = middle;
    else low = middle + 1;
  }
  return low;
}

const pyramids = new WeakMap<NumberColumn, Pyramid>();

export function curveOf(column: NumberColumn, along: Float64Array, { from, to }: Rows, points: number): Curve {
  let present = 0;
  for (let row = from; row < to && present <= points; row++) if (column.has(row)) present++;
  if (present <= points) return pointByPoint(column, along, { from, to }, present);
  // Whole multiples of the span, wherever the range begins: so a curve that grows does not flicker.
  const rough = Math.ceil((to - from) / points);
  const unit = rough > 256 ? 256 : rough > 16 ? 16 : 1;
  const span = Math.ceil(rough / unit) * unit;
  const first = Math.floor(from / span) * span;
  const rows = along.length;
  const last = Math.min(rows, Math.ceil(to / span) * span);
  const pyramid = pyramids.get(column) ?? new Pyramid(column);
  pyramids.set(column, pyramid);
  const { min, max, mean, count } = pyramid.over(first, last, span, rows);
  let full = 0;
  for (let i = 0; i < count.length; i++) if (count[i]! > 0) full++;
  const made = {
    span,
    x: new Float64Array(full),
    ...{ min: new Float32Array(full), max: new Float32Array(full), mean: new Float32Array(full) },
  };
  for (let i = 0, n = 0; i < count.length; i++) {
    if (count[i] === 0) continue;
    const start = first + i * span;
    made.x[n] = (along[start]! + along[Math.min(start + span, last) - 1]!) / 2;
    made.min[n] = min[i]!;
    made.max[n] = max[i]!;
    made.mean[n++] = mean[i]!;
  }
  return made;
}

function pointByPoint(column: NumberColumn, along: Float64Array, { from, to }: Rows, present: number): Curve {
  const x = new Float64Array(present);
  const mean = new Float32Array(present);
  for (let row = from, n = 0; row < to; row++) {
    if (!column.has(row)) continue;
    x[n] = along[row]!;
    const value = column.values[row]!;
    mean[n++] = Number.isFinite(value) ? value : Number.NaN;
  }
  return { span: 1, x, min: mean, max: mean, mean };
}
