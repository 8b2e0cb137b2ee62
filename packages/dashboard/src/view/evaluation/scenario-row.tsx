/** One scenario: its numbers as a picture and as text, and its conversations once it is opened. */
import type { EstimateData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { link, setQuery } from "../../data/url.ts";
import { number, signed } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import { Conversations } from "./conversations.tsx";
import { Dumbbell } from "./dumbbell.tsx";
import type { Scale } from "./scale.ts";
import type { ScenarioChange } from "./scenario-order.ts";

interface Props {
  run: string;
  row: ScenarioChange;
  id: string;
  scale: Scale;
  from: number | undefined;
  to: number;
  open: boolean;
}

export function ScenarioRow({ run, row, id, scale, from, to, open }: Props) {
  const { before, after, change, failed } = row;
  return (
    <article class={`scenario ${open ? "scenario-open" : ""}`}>
      <button
        type="button"
        id={id}
        class="scenario-line"
        aria-expanded={open}
        onClick={() => setQuery({ open: open ? undefined : row.id })}
      >
        <span class="scenario-name cut">
          <Text value={row.id} />
        </span>
        <Dumbbell before={before} after={after} scale={scale} />
        <Cell name="before" of={before} />
        <Cell name="after" of={after} />
        <span class={`right change-${direction(change)}`}>
          <span class="scenario-label">change </span>
          {change === null ? "–" : signed(change, 3)}
        </span>
        <span class={`right ${failed > 0 ? "wrong" : "faint"}`}>
          <span class="scenario-label">failed </span>
          {number(failed)}
        </span>
      </button>
      {open && (
        <div class="scenario-body">
          <div class="scenario-columns">
            {from !== undefined && (
              <Conversations title={`Before, step ${number(from)}`} run={run} step={from} scenario={row.id} />
            )}
            <Conversations title={`After, step ${number(to)}`} run={run} step={to} scenario={row.id} />
          </div>
          <p>
            <a href={link(["run", run, "step", String(to)], { set: "evaluation", scenario: row.id })}>
              All conversations of this scenario at step {number(to)}
            </a>
          </p>
        </div>
      )}
    </article>
  );
}

function Cell({ name, of }: { name: string; of: EstimateData }) {
  return (
    <span class="right scenario-cell">
      <span class="scenario-label">{name} </span>
      {number(of.mean, 3)}
      {of.low !== undefined && of.high !== undefined && (
        <small class="faint">
          {" "}
          [{number(of.low, 2)}, {number(of.high, 2)}]
        </small>
      )}
    </span>
  );
}

const direction = (change: number | null) =>
  change === null || change === 0 ? "same" : change > 0 ? "better" : "worse";
