/** Every scenario with its before and after. */
import { useMemo, useRef } from "preact/hooks";
import { useKeys } from "../../data/keys.ts";
import { place, setQuery } from "../../data/url.ts";
import { ListFields } from "../parts/list-fields.tsx";
import { number } from "../parts/number.ts";
import { VirtualList, type VirtualListHandle } from "../parts/virtual-list.tsx";
import { scaleOf } from "./scale.ts";
import { isOrder, type Order, ordered, orderNames, orders, type ScenarioChange } from "./scenario-order.ts";
import { ScenarioRow } from "./scenario-row.tsx";

interface Props {
  run: string;
  rows: readonly ScenarioChange[];
  /** The steps before and after are of; from is not there where there was one evaluation. */
  from: number | undefined;
  to: number;
}

export function Scenarios({ run, rows, from, to }: Props) {
  const { query } = place.value;
  const order: Order = isOrder(query.order) ? query.order : "change";
  const text = query.text ?? "";
  const shown = useMemo(() => ordered(rows, order, text), [rows, order, text]);
  const scale = useMemo(() => scaleOf(rows.flatMap(({ before, after }) => [before, after])), [rows]);
  const list = useRef<VirtualListHandle>(null);
  const open = query.open;

  const move = (by: 1 | -1) => {
    const at = shown.findIndex(({ id }) => document.activeElement?.id === rowId(id));
    const next = at < 0 ? (by > 0 ? 0 : shown.length - 1) : at + by;
    const row = shown[next];
    if (!row) return;
    list.current?.scrollTo(next);
    requestAnimationFrame(() => document.getElementById(rowId(row.id))?.focus());
  };
  useKeys([
    { key: "j", does: "Next scenario", run: () => move(1) },
    { key: "k", does: "Previous scenario", run: () => move(-1) },
    {
      key: "o",
      does: "Another order of scenarios",
      run: () => setQuery({ order: orders[(orders.indexOf(order) + 1) % orders.length] }),
    },
    { key: "Escape", does: "Close the scenario", run: () => setQuery({ open: undefined }) },
  ]);

  return (
    <section class="evaluation-scenarios" aria-labelledby="scenarios">
      <div class="row">
        <h2 id="scenarios">Scenarios</h2>
        <ListFields
          {...{ of: "scenario", orders, names: orderNames, order, text }}
          shown={shown.length}
          total={rows.length}
        />
        <span class="faint evaluation-key" aria-hidden="true">
          ○ before · ● after · lines: 95% intervals · scale {number(scale.low, 3)} to {number(scale.high, 3)}
        </span>
      </div>
      <div class="scenario-head" aria-hidden="true">
        <span>scenario</span>
        <span />
        <span class="right">before</span>
        <span class="right">after</span>
        <span class="right">change</span>
        <span class="right">failed</span>
      </div>
      {shown.length === 0 && <p class="faint evaluation-none">No scenario is called like that.</p>}
      <VirtualList
        scroll="page"
        handle={list}
        class="scenario-list"
        label="Scenarios"
        count={shown.length}
        estimate={() => 35}
        keyOf={(i) => shown[i]!.id}
        render={(i) => (
          <ScenarioRow
            run={run}
            row={shown[i]!}
            id={rowId(shown[i]!.id)}
            scale={scale}
            from={from}
            to={to}
            open={open === shown[i]!.id}
          />
        )}
      />
    </section>
  );
}

const rowId = (scenario: string) => `scenario-${scenario}`;
