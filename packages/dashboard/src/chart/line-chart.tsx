/** Curves over steps, time or tokens. */
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { dark } from "../data/theme.ts";
import { Text } from "../view/parts/text.tsx";
import { plain } from "../view/parts/visible.ts";
import { type ChartSeries, chartColumns } from "./chart-data.ts";
import { DataTable } from "./data-table.tsx";
import { Legend, type LegendHandle } from "./legend.tsx";
import { MarkList } from "./mark-list.tsx";
import { type ChartMark, marksAt } from "./marks.ts";
import { makePlot, type XAxis } from "./plot.ts";
import { savePng } from "./png.ts";
import { summary } from "./summary.ts";

export type { ChartMark, ChartSeries, XAxis };

export interface ChartRange {
  from: number;
  to: number;
}

export interface LineChartProps {
  title: string;
  /** What the numbers mean, below the title. */
  meaning?: string;
  series: readonly ChartSeries[];
  /** Left out: step. */
  x?: XAxis;
  marks?: readonly ChartMark[];
  /** Their words stand below the chart too, for whoever does not point at them. */
  listMarks?: boolean;
  /** 0 (left out) to 0.99: the weight of what came before. */
  smoothing?: number;
  log?: boolean;
  stack?: boolean;
  height?: number;
  /** Charts of one name share their cursor. */
  sync?: string;
  /** What of x is shown; left out: all. */
  range?: Partial<ChartRange>;
  /** Somebody dragged over a range; null: wants to see all again. Without it there is no zoom. */
  onRange?(range: ChartRange | null): void;
  /** What has all points where the table has some of them: "the CSV". */
  allIn?: string;
  /** Where all values lie between these, the axis ends there, though a band may reach beyond. */
  bounds?: readonly [number, number];
  actions?: ComponentChildren;
}

/** One list for all that have none: another one at each drawing would draw the curves again. */
const noMarks: readonly ChartMark[] = [];

export function LineChart(props: LineChartProps) {
  const {
    title,
    series,
    x = "step",
    marks = noMarks,
    smoothing = 0,
    log = false,
    stack = false,
    height = 220,
    sync,
  } = props;
  const box = useRef<HTMLDivElement>(null);
  const legend = useRef<LegendHandle>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const latest = useRef({ props, marks });
  latest.current = { props, marks };
  /** A chart that was just made has all of it: drawing fifty curves a second time takes as long as the first. */
  const drawnWith = useRef<{ data: unknown; marks: unknown; from?: number; to?: number }>(undefined);
  const [table, setTable] = useState(false);

  const { data, columns } = useMemo(() => {
    const made = chartColumns(series, { smoothing, stack, log });
    const values = [made.x, ...made.columns.map((column) => column.values)] as uPlot.AlignedData;
    return { data: values, columns: made.columns };
  }, [series, smoothing, stack, log]);
  const shape = JSON.stringify([
    x,
    log,
    dark.value,
    sync,
    columns.map(({ series: i, role }) => [i, role]),
    series.map((one) => one.colour),
  ]);

  useLayoutEffect(() => {
    const target = box.current!;
    const made = makePlot(target, data, {
      width: target.clientWidth,
      height,
      x,
      log,
      series,
      columns,
      sync,
      bounds: props.bounds,
      marks: () => latest.current.marks,
      range: () => latest.current.props.range ?? {},
      onZoom: (range) => latest.current.props.onRange?.(range),
      onCursor: (at, left) => {
        const near = plot.current && at !== null ? marksAt(plot.current, latest.current.marks, left) : [];
        legend.current?.show(at, near);
      },
    });
    plot.current = made;
    drawnWith.current = { data, marks, ...latest.current.props.range };
    const observer = new ResizeObserver(() => {
      if (target.clientWidth > 0 && target.clientWidth !== made.width)
        made.setSize({ width: target.clientWidth, height });
    });
    observer.observe(target);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [shape, height]);

  const { from, to } = props.range ?? {};
  useEffect(() => {
    const [made, before] = [plot.current, drawnWith.current];
    if (!made || !before) return;
    drawnWith.current = { data, marks, ...props.range };
    if (before.data !== data) made.setData(data);
    else if (before.from !== from || before.to !== to || before.marks !== marks)
      made.setScale("x", { min: made.data[0][0]!, max: made.data[0].at(-1)! });
  }, [data, from, to, marks]);

  const said = summary(plain(title), x, series);
  return (
    <figure class="chart" data-testid={`chart-${title}`}>
      <figcaption class="chart-head">
        <span class="chart-title">
          <Text value={title} />
        </span>
        <span class="chart-actions">
          {props.actions}
          <button type="button" class="button small quiet" aria-pressed={table} onClick={() => setTable(!table)}>
            Table
          </button>
          <button
            type="button"
            class="button small quiet"
            onClick={() => plot.current && savePng(plot.current, plain(title), series)}
          >
            PNG
          </button>
        </span>
      </figcaption>
      {props.meaning && (
        <p class="chart-meaning cut" title={props.meaning}>
          <Text value={props.meaning} />
        </p>
      )}
      <Legend handle={legend} series={series} x={x} marked={marks.length > 0} />
      <div
        ref={box}
        class="chart-box"
        role="img"
        aria-label={said}
        tabIndex={0}
        onKeyDown={(event) => plot.current && keyed(event, plot.current, latest.current.props)}
      />
      {series.every((one) => one.x.length === 0) && <p class="chart-empty">No values yet.</p>}
      {props.listMarks && marks.length > 0 && <MarkList marks={marks} x={x} />}
      {table && <DataTable title={plain(title)} series={series} x={x} allIn={props.allIn} />}
    </figure>
  );
}

/** ← → move the cursor, + − zoom around it, 0 shows all. */
function keyed(event: KeyboardEvent, plot: uPlot, { onRange }: LineChartProps): void {
  const { left = -1, idx } = plot.cursor;
  const xs = plot.data[0];
  const at = idx ?? (left < 0 ? -1 : plot.posToIdx(left));
  const { min = 0, max = 1 } = plot.scales.x!;
  const zoom = (factor: number) => {
    const middle = xs[at] ?? (min! + max!) / 2;
    const half = ((max! - min!) / 2) * factor;
    onRange?.({ from: middle - half, to: middle + half });
  };
  const moves: Record<string, () => void> = {
    ArrowLeft: () => moveTo(plot, at < 0 ? xs.length - 1 : at - 1),
    ArrowRight: () => moveTo(plot, at + 1),
    "+": () => zoom(0.5),
    "-": () => zoom(2),
    "0": () => onRange?.(null),
    Escape: () => plot.setCursor({ left: -10, top: -10 }),
  };
  const move = moves[event.key];
  if (!move) return;
  event.preventDefault();
  event.stopPropagation();
  move();
}

function moveTo(plot: uPlot, index: number): void {
  const x = plot.data[0][Math.min(Math.max(index, 0), plot.data[0].length - 1)];
  if (x !== undefined) plot.setCursor({ left: plot.valToPos(x, "x"), top: plot.over.clientHeight / 2 });
}
