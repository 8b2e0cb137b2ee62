/** How the curves are drawn: axis, smoothing, scale, and which of them. All of it is in the address. */
import type { XAxis } from "../../chart/line-chart.tsx";
import { apiUrl } from "../../data/ask.ts";
import { setQuery } from "../../data/url.ts";
import type { Charts } from "./choose-charts.ts";
import { MetricPicker } from "./metric-picker.tsx";

const axes: readonly { x: XAxis; word: string }[] = [
  { x: "step", word: "Steps" },
  { x: "time", word: "Time" },
  { x: "tokens", word: "Tokens" },
];

interface Props {
  run: string;
  x: XAxis;
  smoothing: number;
  log: boolean;
  zoomed: boolean;
  charts: Charts;
}

export function ChartBar({ run, x, smoothing, log, zoomed, charts }: Props) {
  return (
    <div class="chart-bar" role="toolbar" aria-label="How curves are drawn">
      <div class="segments" role="group" aria-label="Over">
        {axes.map((axis) => (
          <button
            key={axis.x}
            type="button"
            class="button"
            aria-pressed={axis.x === x}
            onClick={() =>
              setQuery(
                { x: axis.x === "step" ? undefined : axis.x, from: undefined, to: undefined },
                { replace: false },
              )
            }
          >
            {axis.word}
          </button>
        ))}
      </div>
      <label class="field">
        Smoothing
        <input
          type="range"
          min={0}
          max={0.99}
          step={0.01}
          value={smoothing}
          onInput={(event) => setQuery({ smooth: event.currentTarget.value })}
        />
        <output class="smooth-value">{smoothing.toFixed(2)}</output>
      </label>
      <label class="field">
        <input
          type="checkbox"
          checked={log}
          onChange={(event) => setQuery({ log: event.currentTarget.checked ? "1" : undefined })}
        />
        Log scale
      </label>
      <MetricPicker charts={charts} />
      {zoomed && (
        <button type="button" class="button" onClick={() => setQuery({ from: undefined, to: undefined })}>
          Show all of it
        </button>
      )}
      <a class="button quiet" href={apiUrl(`runs/${encodeURIComponent(run)}/csv`).href} download>
        CSV
      </a>
    </div>
  );
}
