/** Scenarios that got better and worse, and for one of them the conversations of every run side by side. */
import { useMemo, useRef } from "preact/hooks";
import type { CompareData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { useKeys } from "../../data/keys.ts";
import { place, setQuery } from "../../data/url.ts";
import { ListFields } from "../parts/list-fields.tsx";
import { VirtualList, type VirtualListHandle } from "../parts/virtual-list.tsx";
import { BaseField } from "./base-field.tsx";
import { unlikeWords } from "./pair-words.ts";
import { RunName } from "./run-name.tsx";
import { ScenarioLine } from "./scenario-line.tsx";
import {
  orderedScenarios,
  type ScenarioOrder,
  scenarioOrderNames,
  scenarioOrders,
  scenarioTable,
  tally,
  unlikeBase,
} from "./scenario-table.ts";
import { baseOf } from "./show.ts";
import { SideBySide } from "./side-by-side.tsx";

export function Scenarios({ data, colours }: { data: CompareData; colours: ReadonlyMap<string, number> }) {
  const { query } = place.value;
  const base = baseOf(query.base, data.runs);
  const baseIndex = data.runs.findIndex(({ key }) => key === base);
  const order: ScenarioOrder = scenarioOrders.find((name) => name === query.order) ?? "apart";
  const text = query.text ?? "";
  const unlike = useMemo(() => unlikeBase(data, base), [data, base]);
  const table = useMemo(() => scenarioTable(data.scenarios, baseIndex, unlike), [data.scenarios, baseIndex, unlike]);
  const shown = useMemo(() => orderedScenarios(table, order, text), [table, order, text]);
  const list = useRef<VirtualListHandle>(null);
  const chosen = query.scenario;

  const move = (by: 1 | -1) => {
    const at = shown.findIndex(({ id }) => id === chosen);
    const next = at < 0 ? (by > 0 ? 0 : shown.length - 1) : at + by;
    const row = shown[next];
    if (!row) return;
    setQuery({ scenario: row.id });
    list.current?.scrollTo(next);
  };
  useKeys([
    { key: "j", does: "Conversations of the next scenario", run: () => move(1) },
    { key: "k", does: "Conversations of the previous scenario", run: () => move(-1) },
    {
      key: "o",
      does: "Another order of scenarios",
      run: () => setQuery({ order: scenarioOrders[(scenarioOrders.indexOf(order) + 1) % scenarioOrders.length] }),
    },
  ]);

  if (data.scenarios.length === 0) return null;
  return (
    <section class="stack" aria-labelledby="compared-scenarios">
      <div class="row">
        <h2 id="compared-scenarios">Scenarios</h2>
        {data.runs.length > 1 && <BaseField runs={data.runs} base={base} />}
        <ListFields
          {...{ of: "scenario", orders: scenarioOrders, names: scenarioOrderNames, order, text }}
          shown={shown.length}
          total={table.length}
        />
      </div>
      <div class="compare-scenarios" style={{ "--runs": String(data.runs.length) }}>
        <div class="compare-line compare-line-head">
          <span>scenario</span>
          {data.runs.map(({ key }, i) => {
            const { better, worse } = tally(table, i);
            const why = unlike[i];
            const said = i === baseIndex ? "base" : why ? unlikeWords[why] : `${better} better, ${worse} worse`;
            return (
              <span key={key} class="right">
                <RunName name={key} colour={colours.get(key)} />
                <small class="faint"> {said}</small>
              </span>
            );
          })}
        </div>
        <VirtualList
          handle={list}
          class="compare-list"
          label="Scenarios"
          count={shown.length}
          estimate={() => 32}
          keyOf={(i) => shown[i]!.id}
          render={(i) => <ScenarioLine row={shown[i]!} runs={data.runs} chosen={shown[i]!.id === chosen} />}
        />
      </div>
      {chosen !== undefined && <SideBySide scenario={chosen} runs={data.runs} />}
    </section>
  );
}
