/** The conversations of one scenario of one run, each to be read in place or looked at token by token. */
import { useState } from "preact/hooks";
import type {
  TrajectoriesData,
  TrajectoryData,
  TrajectoryRow,
} from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { askJson } from "../../data/ask.ts";
import { useResource } from "../../data/resource.ts";
import { link } from "../../data/url.ts";
import { Messages } from "../live/messages.tsx";
import { Loading } from "../parts/loading.tsx";
import { number } from "../parts/number.ts";
import { Problem, Problems } from "../parts/problem.tsx";
import { Text } from "../parts/text.tsx";
import "./conversations.css";

interface Props {
  title: string;
  run: string;
  scenario: string;
  /** Left out: all that were kept. */
  step?: number;
  set?: "training" | "evaluation";
}

export function Conversations({ title, run, scenario, step, set = "evaluation" }: Props) {
  const query = { scenario, set, step, sort: step === undefined ? "-step" : undefined };
  const { data, error, reload } = useResource(JSON.stringify(["conversations", run, query]), (signal) =>
    askJson<TrajectoriesData>(`runs/${encodeURIComponent(run)}/trajectories`, query, signal),
  );
  return (
    <section class="conversations" aria-label={title}>
      <h3>
        <Text value={title} />
      </h3>
      {error && <Problem error={error} retry={reload} />}
      {!data && !error && <Loading what="Looking for conversations" />}
      {data && <Problems list={data.problems} />}
      {data?.rows.length === 0 && <p class="faint">None of its conversations were kept.</p>}
      <ul>
        {data?.rows.map((row) => (
          <li key={row.key}>
            <Card row={row} showStep={step === undefined} />
          </li>
        ))}
      </ul>
      {data?.next !== null && data !== undefined && <p class="faint">The first {data.rows.length} of more.</p>}
    </section>
  );
}

function Card({ row, showStep }: { row: TrajectoryRow; showStep: boolean }) {
  const [open, setOpen] = useState(false);
  return (
    <article class={`conversation ${row.failure === null ? "" : "conversation-failed"}`}>
      <div class="conversation-head">
        <strong>{number(row.reward, 3)}</strong>
        {showStep && <span class="faint">step {number(row.step)}</span>}
        {Object.entries(row.breakdown).map(([name, value]) => (
          <span key={name} class="faint">
            <Text value={name} /> {number(value, 2)}
          </span>
        ))}
        <span class="conversation-actions">
          <button type="button" class="button small quiet" aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? "Fold" : "Read"}
          </button>
          <a class="button small quiet" href={link(["trajectory", row.key])}>
            Tokens
          </a>
        </span>
      </div>
      {row.failure !== null && (
        <p class="wrong">
          {row.leftOut !== null && `${row.leftOut}: `}
          <Text value={row.failure} />
        </p>
      )}
      {open ? (
        <Said trajectory={row.key} />
      ) : (
        <p class="conversation-snippet">
          <Text value={row.snippet} />
        </p>
      )}
    </article>
  );
}

function Said({ trajectory }: { trajectory: string }) {
  const { data, error, reload } = useResource(`trajectory ${trajectory}`, (signal) =>
    askJson<TrajectoryData>(`trajectories/${encodeURIComponent(trajectory)}`, {}, signal),
  );
  if (error) return <Problem error={error} retry={reload} />;
  return data ? <Messages messages={data.record.messages} /> : <Loading />;
}
