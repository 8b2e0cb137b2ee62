/** uPlot, set up once for every chart of the page. */
import uPlot from "uplot";
import { compact, duration, number } from "../view/parts/number.ts";
import { boundedRange } from "./bounded-range.ts";
import type { ChartColumns, ChartSeries, Role } from "./chart-data.ts";
import { lineColour, resolved } from "./colours.ts";
import { type ChartMark, drawMarks } from "./marks.ts";

export type XAxis = "step" | "time" | "tokens";

export interface PlotOptions {
  width: number;
  height: number;
  x: XAxis;
  log: boolean;
  series: readonly ChartSeries[];
  columns: ChartColumns["columns"];
  sync: string | undefined;
  bounds: readonly [number, number] | undefined;
  marks(): readonly ChartMark[];
  range(): { from?: number; to?: number };
  onZoom(range: { from: number; to: number } | null): void;
  /** x under the cursor, null when it left. */
  onCursor(x: number | null, left: number): void;
}

/** Seconds that people count in. */
const timeSteps = [1, 2, 5, 10, 15, 30]
  .flatMap((n) => [n, n * 60])
  .concat([1, 2, 3, 6, 12, 24, 48, 120, 240, 720].map((h) => h * 3600));
timeSteps.sort((a, b) => a - b);
/** There is no half of a step. */
const wholeSteps = Array.from({ length: 15 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** i)).flat();

const font = "11px system-ui, sans-serif";
/** More are drawn thin: they hide less of each other, and in a third of the time. */
const manyLines = 16;

export function formatX(axis: XAxis, value: number): string {
  if (axis === "time") return value === 0 ? "0" : duration(value * 1000);
  return axis === "tokens" ? compact(value) : number(value);
}

export function makePlot(target: HTMLElement, data: uPlot.AlignedData, options: PlotOptions): uPlot {
  const { series, columns } = options;
  const grid = { stroke: resolved("var(--grid)"), width: 1 };
  const axis = { stroke: resolved("var(--ink-faint)"), grid, ticks: { ...grid, size: 4 }, font };
  const width = columns.filter(({ role }) => role === "line").length > manyLines ? 1 : 1.75;
  const colourOf = (i: number, alpha?: number) => resolved(lineColour(series[i]!.colour ?? i), alpha);
  return new uPlot(
    {
      width: options.width,
      height: options.height,
      legend: { show: false },
      padding: [8, 18, 0, 0],
      scales: {
        x: { time: false, range: (_, low, high) => xRange(options.range(), low, high) },
        y: options.log ? { distr: 3 } : yScale(options.bounds, columns),
      },
      axes: [
        {
          ...axis,
          size: 30,
          space: 72,
          incrs: options.x === "time" ? timeSteps : wholeSteps,
          values: (_, ticks) => ticks.map((tick) => formatX(options.x, tick)),
        },
        { ...axis, size: 54, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : compact(tick))) },
      ],
      series: [
        {},
        ...columns.map(({ series: i, role }) => drawn(role, (alpha) => colourOf(i, alpha), width, series[i]!.joined)),
      ],
      bands: bands(columns, (i, alpha) => colourOf(i, alpha)),
      cursor: {
        y: false,
        // A dot on each line; ends of bands have none.
        points: { size: (_, i) => (columns[i - 1]?.role === "line" || columns[i - 1]?.role === "top" ? 7 : 0) },
        // Where a line has no point at this x, its nearest.
        hover: { skip: [undefined] },
        drag: { x: true, y: false, setScale: false },
        ...(options.sync && { sync: { key: options.sync, scales: ["x", null] } }),
        bind: {
          dblclick: () => () => {
            options.onZoom(null);
            return null;
          },
        },
      },
      hooks: {
        setSelect: [
          (plot) => {
            const { left, width } = plot.select;
            if (width < 4) return;
            options.onZoom({ from: plot.posToVal(left, "x"), to: plot.posToVal(left + width, "x") });
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
        setCursor: [
          (plot) => {
            const { left = -1, idx } = plot.cursor;
            options.onCursor(left < 0 || idx == null ? null : (plot.data[0][idx] ?? null), left);
          },
        ],
        drawAxes: [(plot) => drawMarks(plot, options.marks())],
        draw: [(plot) => drawPoints(plot, columns, (i) => colourOf(i))],
      },
    },
    data,
    target,
  );
}

function drawn(role: Role, colour: (alpha?: number) => string, width: number, joined = false): uPlot.Series {
  const none: uPlot.Series = { points: { show: false }, paths: () => null };
  if (role === "line") return { stroke: colour(), width, points: { show: alone, size: 5, fill: colour() } };
  if (role === "raw" || (role === "points" && joined))
    return { stroke: colour(0.3), width: 1, points: { show: false } };
  if (role === "top") return { stroke: colour(), width: 1, points: { show: false } };
  // Ends of bands: drawn by what lies between them.
  if (role === "points") return none;
  return { stroke: colour(0), width: 0, points: { show: false } };
}

/** A line of few points shows them: one of a single point would show nothing. */
const alone = (plot: uPlot, _: number, from: number, to: number) => to - from < 12 || plot.data[0].length < 12;

const bandEnds = { max: ["min", 0.1], high: ["low", 0.18], top: ["base", 0.55] } as const;

function bands(columns: ChartColumns["columns"], colour: (series: number, alpha: number) => string): uPlot.Band[] {
  return columns.flatMap(({ series, role }, i): uPlot.Band[] => {
    const end = (bandEnds as Partial<Record<Role, readonly [Role, number]>>)[role];
    if (!end) return [];
    const other = columns.findIndex((one) => one.series === series && one.role === end[0]);
    const isPoints = columns.some((one) => one.series === series && one.role === "points");
    return isPoints ? [] : [{ series: [i + 1, other + 1], fill: colour(series, end[1]) }];
  });
}

/** Single values with whiskers. */
function drawPoints(plot: uPlot, columns: ChartColumns["columns"], colour: (series: number) => string): void {
  const { ctx } = plot;
  const scale = devicePixelRatio;
  columns.forEach(({ series, role }, at) => {
    if (role !== "points") return;
    // What is drawn now: the columns it began with tell only which is which.
    const ends = (name: Role) => plot.data[columns.findIndex((one) => one.series === series && one.role === name) + 1];
    const [values, lows, highs] = [plot.data[at + 1]!, ends("low"), ends("high")];
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour(series);
    ctx.lineWidth = 1.5 * scale;
    Array.from(values).forEach((value, i) => {
      const place = plot.data[0][i]!;
      const { min, max } = plot.scales.x!;
      if (value === null || value === undefined || place < min! || place > max!) return;
      const x = plot.valToPos(place, "x", true);
      const y = (of: number) => plot.valToPos(of, "y", true);
      const [low, high] = [lows?.[i], highs?.[i]];
      ctx.beginPath();
      if (typeof low === "number" && typeof high === "number") {
        const arm = 3 * scale;
        ctx.moveTo(x, y(low));
        ctx.lineTo(x, y(high));
        for (const end of [low, high]) {
          ctx.moveTo(x - arm, y(end));
          ctx.lineTo(x + arm, y(end));
        }
        ctx.stroke();
        ctx.beginPath();
      }
      ctx.arc(x, y(value), 3.5 * scale, 0, 2 * Math.PI);
      ctx.fill();
    });
    ctx.restore();
  });
}

/** Curves that have an interval of their own are not given room for what they cannot reach; others as uPlot has it. */
function yScale(bounds: PlotOptions["bounds"], columns: ChartColumns["columns"]): uPlot.Scale {
  if (!bounds) return {};
  // Bands may reach beyond; whiskers of single values may not.
  const isBand = ({ series, role }: ChartColumns["columns"][number]) =>
    (role === "low" || role === "high") && !columns.some((one) => one.series === series && one.role === "points");
  const usual: uPlot.Range.Function = (_, low, high) => uPlot.rangeNum(low ?? 0, high ?? 1, 0.1, true);
  return {
    range(plot, low, high, key) {
      // What is drawn now.
      const values = (wanted: boolean) =>
        columns.flatMap((column, i) => (isBand(column) === wanted ? Array.from(plot.data[i + 1] ?? []) : []));
      return boundedRange(bounds, values(false), values(true)) ?? usual(plot, low, high, key);
    },
  };
}

function xRange({ from, to }: { from?: number; to?: number }, low: number, high: number): [number, number] {
  const start = from ?? low ?? 0;
  const end = to ?? high ?? 1;
  // A single point stands in the middle.
  return end > start ? [start, end] : [start - 0.5, start + 0.5];
}
