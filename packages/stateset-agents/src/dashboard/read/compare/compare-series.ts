/** One metric of several runs: each run, or families of seeds as mean and interval, as they are or as differences from one. */
import { twoSided } from "../../../evaluation/quantile.ts";
import { HttpError } from "../../../server/http-error.ts";
import { firstMetric } from "../../api/first-metric.ts";
import { type Axis, type CompareSeriesHead, encodePacked, mostPoints, type NumberColumn } from "../../api/index.ts";
import type { Library } from "../library.ts";
import type { RunPlace } from "../places.ts";
import type { Query } from "../reader.ts";
import { axisOf, columnOf, curveOf } from "../series.ts";
import { placesIn } from "./compare.ts";
import { type Family, familiesOf } from "./families.ts";

interface Line {
  key: string;
  id: string;
  config: ReturnType<Library["config"]>;
  /** Empty where the run has no such metric. */
  x: Float64Array;
  y: Float32Array;
}

interface Band {
  x: Float64Array<ArrayBuffer>;
  mean: Float32Array<ArrayBuffer>;
  /** Of the mean over seeds: its variance and degrees of freedom; NaN and 0 where there is one. */
  variance: Float64Array;
  freedom: Float64Array;
}

export async function compareSeries(library: Library, query: Query): Promise<Uint8Array<ArrayBuffer>> {
  const places = placesIn(library, query);
  const metric = query.metric ?? (await metricToShow(library, places));
  const asked = Number(query.points ?? 1000);
  const points = Math.min(mostPoints, Math.max(1, asked));
  const lines: Line[] = [];
  const unknown: unknown[] = [];
  for (const { key, dir } of places) {
    const tables = await library.indexes.of(dir).tables();
    const config = library.config(dir);
    const id = typeof config?.id === "string" ? config.id : key;
    const line: Line = { key, id, config, x: new Float64Array(0), y: new Float32Array(0) };
    lines.push(line);
    try {
      const along = axisOf(tables, (query.x ?? "step") as Axis);
      const curve = curveOf(columnOf(tables.metrics, metric), along, { from: 0, to: along.length }, points);
      Object.assign(line, { x: curve.x, y: curve.mean });
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      unknown.push(error);
    }
  }
  // Some may lack it; where all do, it is misspelt.
  if (unknown.length === lines.length) throw unknown[0];
  const seeds = query.fold === "seeds";
  const families = seeds ? familiesOf(lines) : lines.map((line) => ({ name: line.id, members: [line] }));
  const bands = families.map(({ members }) => bandOf(members));
  const base = baseOf(families, query.base);
  const shown = base === undefined ? bands : bands.map((band) => differenceOf(band, bands[base]!));
  const columns: Record<string, NumberColumn> = {};
  const xs = shown.map((band, i) => {
    columns[`${i}.mean`] = band.mean;
    if (band.freedom.some((own) => own > 0)) {
      const half = band.variance.map((variance, n) =>
        band.freedom[n]! > 0 ? halfWidth(variance, band.freedom[n]!) : Number.NaN,
      );
      columns[`${i}.low`] = band.mean.map((value, n) => value - half[n]!);
      columns[`${i}.high`] = band.mean.map((value, n) => value + half[n]!);
    }
    const same = shown.findIndex((other) => sameNumbers(other.x, band.x));
    if (same === i) columns[`${i}.x`] = band.x;
    return `${same}.x`;
  });
  const head: CompareSeriesHead = {
    metric,
    capped: asked > mostPoints,
    families: families.map(({ name, members }, i) => ({ name, runs: members.map(({ key }) => key), x: xs[i]! })),
  };
  return encodePacked(head, columns);
}

async function metricToShow(library: Library, places: readonly RunPlace[]): Promise<string> {
  const known = new Set<string>();
  for (const { dir } of places)
    for (const { name } of (await library.indexes.of(dir).summary()).metrics) known.add(name);
  const metric = firstMetric([...known]);
  if (metric === undefined)
    throw new HttpError(400, "None of these runs has a metric yet.", { param: "metric", code: "metric_unknown" });
  return metric;
}

const sameNumbers = (a: Float64Array, b: Float64Array) =>
  a === b || (a.length === b.length && a.every((value, i) => value === b[i]));

const halfWidth = (variance: number, freedom: number) =>
  twoSided(0.95, Math.max(1, Math.floor(freedom))) * Math.sqrt(variance);

function baseOf(families: readonly Family<Line>[], base: string | undefined): number | undefined {
  if (base === undefined) return undefined;
  const at = families.findIndex(({ members }) => members.some(({ key }) => key === base));
  if (at < 0)
    throw new HttpError(400, `The base ${JSON.stringify(base)} is none of the runs that are compared.`, {
      param: "base",
    });
  return at;
}

/** On the points of all members, from where all have begun to where the first one ends. */
function bandOf(members: readonly Line[]): Band {
  const drawn = members.filter(({ x }) => x.length > 0);
  if (drawn.length <= 1) {
    const { x, y } = drawn[0] ?? { x: new Float64Array(0), y: new Float32Array(0) };
    const freedom = new Float64Array(x.length);
    return { x: Float64Array.from(x), mean: Float32Array.from(y), variance: freedom.map(() => Number.NaN), freedom };
  }
  const grid = commonGrid(drawn.map(({ x }) => x));
  const values = drawn.map(({ x, y }) => interpolated(x, y, grid));
  const n = drawn.length;
  const mean = Float64Array.from(grid, (_, i) => values.reduce((sum, own) => sum + own[i]!, 0) / n);
  const variance = mean.map((centre, i) => values.reduce((sum, own) => sum + (own[i]! - centre) ** 2, 0) / (n - 1) / n);
  return { x: grid, mean: Float32Array.from(mean), variance, freedom: variance.map(() => n - 1) };
}

/** The points of the one that has most of them, where all have numbers. */
function commonGrid(axes: readonly Float64Array[]): Float64Array<ArrayBuffer> {
  const from = Math.max(...axes.map((x) => x[0]!));
  const to = Math.min(...axes.map((x) => x.at(-1)!));
  const finest = axes.reduce((most, x) => (x.length > most.length ? x : most));
  return Float64Array.from(finest.filter((at) => at >= from && at <= to));
}

function interpolated(x: Float64Array, y: Float32Array, grid: Float64Array): Float64Array {
  let at = 0;
  return Float64Array.from(grid, (wanted) => {
    while (at + 1 < x.length && x[at + 1]! <= wanted) at++;
    const [left, right] = [x[at]!, x[at + 1]];
    if (right === undefined || right === left || wanted <= left) return y[at]!;
    const share = (wanted - left) / (right - left);
    return y[at]! * (1 - share) + y[at + 1]! * share;
  });
}

/** Welch's: variances of two means add, and so do their degrees of freedom, weighted. A single run adds no variance that is known. */
function differenceOf(band: Band, base: Band): Band {
  if (band.x.length === 0 || base.x.length === 0) return { ...band, x: new Float64Array(0), mean: new Float32Array(0) };
  const grid = commonGrid([band.x, base.x]);
  const on = (own: Band, numbers: Float32Array | Float64Array) => interpolated(own.x, Float32Array.from(numbers), grid);
  const [a, b] = [on(band, band.mean), on(base, base.mean)];
  const [va, vb] = [on(band, band.variance), on(base, base.variance)];
  const [fa, fb] = [on(band, band.freedom), on(base, base.freedom)];
  const same = band === base;
  return {
    x: grid,
    mean: Float32Array.from(a, (value, i) => value - b[i]!),
    variance: va.map((own, i) => (same ? 0 : own + vb[i]!)),
    freedom: va.map((own, i) => {
      if (same || !(fa[i]! > 0 && fb[i]! > 0)) return 0;
      const sum = own + vb[i]!;
      return sum === 0 ? fa[i]! + fb[i]! : sum ** 2 / (own ** 2 / fa[i]! + vb[i]! ** 2 / fb[i]!);
    }),
  };
}
