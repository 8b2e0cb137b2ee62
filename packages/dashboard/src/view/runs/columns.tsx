/** The columns of the table of runs. */
import type { ComponentChildren } from "preact";
import type { RunRow } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { link, setQuery } from "../../data/url.ts";
import { ago, compact, estimate, moment, number, plural, signed } from "../parts/number.ts";
import { RunState } from "../parts/run-state.tsx";
import { Sparkline } from "../parts/sparkline.tsx";
import { Text } from "../parts/text.tsx";
import { plain } from "../parts/visible.ts";

export interface Column {
  /** Names its place in the grid of style. */
  id: string;
  title: string;
  /** What it is sorted by; left out: it cannot be. */
  sort?: string;
  right?: boolean;
  /** Of the grid. */
  width: string;
  /** Where nobody chose, it is shown from so many pixels of the window on: less room, less columns. Left out: always. */
  from?: number;
  /** It tells which run it is, and how that stands. */
  always?: true;
  /** It has a place on the card that a run is in a narrow window. */
  onCards?: true;
  cell(row: RunRow): ComponentChildren;
}

export const columns: readonly Column[] = [
  {
    id: "state",
    title: "State",
    sort: "state",
    width: "108px",
    always: true,
    cell: (row) => <RunState state={row.state} />,
  },
  {
    id: "run",
    title: "Run",
    sort: "id",
    width: "minmax(140px, 2.4fr)",
    always: true,
    cell: (row) => (
      <a
        class="run-link cut"
        href={link(["run", row.key])}
        data-run={row.key}
        onClick={() => setQuery({ run: row.key })}
        title={plain(row.note) || undefined}
      >
        {row.problems.length > 0 && (
          <span
            class="tone-warn"
            title={row.problems.map(({ where, message }) => plain(`${where}: ${message}`)).join("\n")}
          >
            ⚠<span class="unseen"> {plural(row.problems.length, "problem")}</span>{" "}
          </span>
        )}
        <Text value={row.id} />
        {row.key.replace(/^\d+~/, "") !== row.id && (
          <span class="faint">
            {" "}
            <Text value={row.key} />
          </span>
        )}
      </a>
    ),
  },
  {
    id: "algorithm",
    title: "Algorithm",
    sort: "algorithm",
    width: "minmax(64px, 0.6fr)",
    from: 1081,
    cell: (row) => (
      <span class="cut">
        <Text value={row.algorithm ?? row.learner ?? "–"} />
      </span>
    ),
  },
  {
    id: "model",
    title: "Model",
    sort: "model",
    width: "minmax(70px, 1fr)",
    from: 1381,
    cell: (row) => (
      <span class="cut" title={plain(row.model ?? "") || undefined}>
        <Text value={lastPart(row.model)} />
      </span>
    ),
  },
  {
    id: "steps",
    title: "Steps",
    sort: "step",
    right: true,
    width: "88px",
    from: 1081,
    onCards: true,
    cell: (row) => (
      <>
        {number(row.step)}
        {row.steps !== null && <span class="faint"> / {number(row.steps)}</span>}
      </>
    ),
  },
  {
    id: "curve",
    title: "Reward or loss",
    width: "98px",
    onCards: true,
    cell: (row) => <Sparkline points={row.curve.points} label={row.curve.metric} />,
  },
  {
    id: "last",
    title: "Last",
    sort: "reward",
    right: true,
    width: "88px",
    onCards: true,
    cell: (row) =>
      row.reward === null && row.loss !== null ? (
        <span class="held" title="loss">
          <span class="faint">loss </span>
          {number(row.loss, 3)}
        </span>
      ) : (
        <strong title="reward">{number(row.reward)}</strong>
      ),
  },
  {
    id: "held",
    title: "Held out: before → after",
    sort: "after",
    width: "208px",
    from: 1081,
    onCards: true,
    cell: (row) => <HeldOut heldOut={row.heldOut} />,
  },
  {
    id: "speed",
    title: "Tokens/s",
    sort: "tokensPerSecond",
    right: true,
    width: "60px",
    from: 1381,
    cell: (row) => compact(row.tokensPerSecond),
  },
  {
    id: "started",
    title: "Started",
    sort: "startedAt",
    width: "76px",
    from: 1381,
    cell: (row) => <span title={moment(row.startedAt)}>{ago(row.startedAt)}</span>,
  },
];

function HeldOut({ heldOut }: { heldOut: RunRow["heldOut"] }) {
  if (!heldOut) return <span class="faint">–</span>;
  const { metric, before, after } = heldOut;
  const change = before?.mean != null && after?.mean != null ? after.mean - before.mean : null;
  const by = change === null ? "" : `, ${signed(Number(change.toPrecision(3)))}`;
  const said = `${metric}: ${estimate(before)} before, ${estimate(after)} after${by}; in brackets 95% intervals`;
  return (
    <span class="held" title={said}>
      <span class="faint">{number(before?.mean, 3)} →</span> {estimate(after ?? null)}
    </span>
  );
}

/** Of a path or an address the part that tells models apart. */
function lastPart(model: string | null): string {
  return model?.replace(/\/+$/, "").split("/").pop() || model || "–";
}
