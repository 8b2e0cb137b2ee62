/** How the curves are drawn: axis, smoothing, scale, and which of them. All of it is in the address. */
import { CurveFields } from "../../chart/curve-fields.tsx";
import type { XAxis } from "../../chart/line-chart.tsx";
import { apiUrl } from "../../data/ask.ts";
import type { Charts } from "./choose-charts.ts";
import { MetricPicker } from "./metric-picker.tsx";

interface Props {
  run: string;
  x: XAxis;
  smoothing: number;
  log: boolean;
  charts: Charts;
}

export function ChartBar({ run, x, smoothing, log, charts }: Props) {
  return (
    <div class="chart-bar" role="toolbar" aria-label="How curves are drawn">
      <CurveFields x={x} smoothing={smoothing} log={log} />
      <MetricPicker charts={charts} />
      <a class="button quiet" href={apiUrl(`runs/${encodeURIComponent(run)}/csv`).href} download>
        CSV
      </a>
    </div>
  );
}
