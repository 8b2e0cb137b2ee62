/** One metric of all runs. */
import { useMemo } from "preact/hooks";
import type { CompareData, CompareSeriesHead } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { LineChart, type XAxis } from "../../chart/line-chart.tsx";
import { useZoom } from "../../chart/zoom.tsx";
import { askPacked } from "../../data/ask.ts";
import { useFollowed } from "../../data/follow.ts";
import { Loading } from "../parts/loading.tsx";
import { Problem } from "../parts/problem.tsx";
import { plain } from "../parts/visible.ts";
import { seriesQuery } from "./asks.ts";
import { familySeries, type Shown } from "./show.ts";

interface Props {
  metric: string;
  /** Nobody asked for it: it is what is shown first, as the server too would choose it. */
  isFirst: boolean;
  data: CompareData;
  colours: ReadonlyMap<string, number>;
  changes: number;
  x: XAxis;
  shown: Shown;
  base: string;
  smoothing: number;
  log: boolean;
  remove: (() => void) | undefined;
}

export function Curve({ metric, isFirst, data, colours, changes, x, shown, base, smoothing, log, remove }: Props) {
  const query = seriesQuery({
    ...{ runs: data.runs.map(({ key }) => key), metric: isFirst ? undefined : metric },
    ...{ x, shown, base },
  });
  const {
    data: answer,
    error,
    reload,
  } = useFollowed(JSON.stringify(query), changes, (signal) =>
    askPacked<CompareSeriesHead>("compare/series", query, signal),
  );
  const series = useMemo(() => (answer ? familySeries(answer, colours) : []), [answer, [...colours.keys()].join()]);
  const zoom = useZoom();
  if (error && !answer) return <Problem error={error} retry={reload} />;
  if (!answer) return <Loading what="Reading curves" />;
  const chart = (
    <LineChart
      title={shown === "difference" ? `${plain(metric)}, difference from ${plain(base)}` : plain(metric)}
      series={series}
      x={x}
      smoothing={smoothing}
      log={log}
      sync="compare"
      height={260}
      {...(metric === "reward" && shown !== "difference" && { bounds: [0, 1] })}
      {...zoom}
      actions={
        remove && (
          <button type="button" class="button small quiet" onClick={remove}>
            Remove
          </button>
        )
      }
    />
  );
  if (shown === "runs" || series.some(({ low }) => low !== undefined)) return chart;
  return (
    <div>
      {chart}
      <p class="faint">
        {shown === "difference"
          ? "No interval: both sides of a difference need two runs that differ by their seed alone."
          : "No interval: none of these runs has another that differs by its seed alone."}
      </p>
    </div>
  );
}
