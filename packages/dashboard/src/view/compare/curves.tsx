/** Curves of any metric: one a run, folded over seeds, or as differences from a base. */
import { firstMetric } from "../../../../stateset-agents/src/dashboard/api/first-metric.ts";
import type { CompareData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { axes, CurveFields, chooseAxis } from "../../chart/curve-fields.tsx";
import { useKeys } from "../../data/keys.ts";
import { joinNames, splitNames } from "../../data/list.ts";
import { place, setQuery } from "../../data/url.ts";
import { plain } from "../parts/visible.ts";
import { BaseField } from "./base-field.tsx";
import { Curve } from "./curve.tsx";
import { baseOf, type Shown, shownOf } from "./show.ts";

const ways = { runs: "each run", seeds: "over seeds", difference: "differences" } as const;

interface Props {
  data: CompareData;
  colours: ReadonlyMap<string, number>;
  changes: number;
}

export function Curves({ data, colours, changes }: Props) {
  const { query } = place.value;
  const named = [...new Set(splitNames(query.metrics))].filter((name) => data.metrics.includes(name));
  const first = firstMetric(data.metrics);
  const metrics = named.length === 0 && first !== undefined ? [first] : named;
  const x = axes.find((axis) => axis === query.x) ?? "step";
  const shown = shownOf(query.show);
  const base = baseOf(query.base, data.runs);
  const smoothing = Math.min(0.99, Math.max(0, Number(query.smooth) || 0));
  const log = query.log === "1";
  const next = <T,>(list: readonly T[], one: T): T => list[(list.indexOf(one) + 1) % list.length]!;
  const setMetrics = (list: readonly string[]) => setQuery({ metrics: joinNames(list) });
  useKeys([
    { key: "x", does: "Another axis: steps, time, tokens", run: () => chooseAxis(next(axes, x)) },
    {
      key: "d",
      does: "Each run, mean over seeds, differences",
      run: () => setQuery({ show: next(Object.keys(ways), shown) }),
    },
    { key: "l", does: "Logarithmic scale", run: () => setQuery({ log: log ? undefined : "1" }) },
  ]);
  return (
    <section class="stack" aria-labelledby="curves">
      <div class="row">
        <h2 id="curves">Curves</h2>
        <div class="segments" role="group" aria-label="What a curve is">
          {(Object.keys(ways) as Shown[]).map((way) => (
            <button
              key={way}
              type="button"
              class="button"
              aria-pressed={way === shown}
              onClick={() => setQuery({ show: way })}
            >
              {ways[way]}
            </button>
          ))}
        </div>
        {shown === "difference" && <BaseField runs={data.runs} base={base} />}
        <CurveFields x={x} smoothing={smoothing} log={log} />
        <label class="field">
          <span class="unseen">Add a curve</span>
          <select
            class="select"
            value=""
            onChange={({ currentTarget }) => {
              if (currentTarget.value) setMetrics([...metrics, currentTarget.value]);
              currentTarget.value = "";
            }}
          >
            <option value="">+ another metric</option>
            {data.metrics
              .filter((name) => !metrics.includes(name))
              .map((name) => (
                <option key={name} value={name}>
                  {plain(name)}
                </option>
              ))}
          </select>
        </label>
      </div>
      {metrics.length === 0 && <p class="faint">None of these runs has written a metric yet.</p>}
      <div class="compare-charts">
        {metrics.map((metric) => (
          <Curve
            key={metric}
            metric={metric}
            isFirst={named.length === 0}
            data={data}
            colours={colours}
            changes={changes}
            x={x}
            shown={shown}
            base={base}
            smoothing={smoothing}
            log={log && shown !== "difference"}
            remove={metrics.length > 1 ? () => setMetrics(metrics.filter((name) => name !== metric)) : undefined}
          />
        ))}
      </div>
    </section>
  );
}
