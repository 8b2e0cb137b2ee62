/** `#/evaluation/<run>`: what a run reached on scenarios or data that it did not learn from. */
import type { EvaluationsData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { askJson } from "../../data/ask.ts";
import { useChanges, useFollowed } from "../../data/follow.ts";
import { useKeys } from "../../data/keys.ts";
import { joinNames } from "../../data/list.ts";
import { link, place, setQuery } from "../../data/url.ts";
import { Loading } from "../parts/loading.tsx";
import { Page } from "../parts/page.tsx";
import { Problem, Problems } from "../parts/problem.tsx";
import { RunGone } from "../parts/run-gone.tsx";
import { courseOf, type SetName, setsOf, setWords } from "./course.ts";
import { DataSet } from "./data-set.tsx";
import "./evaluation.css";
import { RewardSet } from "./reward-set.tsx";

export function EvaluationView() {
  const run = place.value.path[1] ?? "";
  const changes = useChanges([run]);
  const gone = changes.gone.length > 0;
  const { data, error, loading, reload } = useFollowed(`evaluations ${run}`, changes.count, (signal) =>
    askJson<EvaluationsData>(`runs/${encodeURIComponent(run)}/evaluations`, {}, signal),
  );
  return (
    <Page
      title={`Evaluation of ${run}`}
      crumbs={[{ text: run, href: link(["run", run]) }, { text: "Evaluation" }]}
      actions={
        <a class="button quiet" href={link(["compare"], { runs: joinNames([run]) })}>
          Compare
        </a>
      }
    >
      {gone && <RunGone />}
      {error && !gone && <Problem error={error} retry={reload} />}
      {loading && !data && !error && <Loading what="Reading evaluations" />}
      {data && <Sets data={data} run={run} />}
    </Page>
  );
}

function Sets({ data, run }: { data: EvaluationsData; run: string }) {
  const sets = setsOf(data);
  const asked = place.value.query.set as SetName | undefined;
  const set = asked && sets.includes(asked) ? asked : sets[0];
  const choose = (by: number) => {
    const next = sets[(sets.indexOf(set!) + by + sets.length) % sets.length];
    if (next) setQuery({ set: next, open: undefined });
  };
  useKeys(sets.length > 1 ? [{ key: "s", does: "The next set of scenarios", run: () => choose(1) }] : []);
  if (set === undefined) return <NoEvaluation problems={data.problems} />;
  return (
    <>
      <Problems list={data.problems} />
      <div class="row">
        <div class="segments" role="group" aria-label="Set">
          {sets.map((name) => (
            <button
              key={name}
              type="button"
              class="button"
              aria-pressed={name === set}
              onClick={() => setQuery({ set: name, open: undefined })}
            >
              {setWords[name].name}
            </button>
          ))}
        </div>
        <span class="faint">{setWords[set].meaning}</span>
      </div>
      {set === "held-out" ? (
        <DataSet course={courseOf(data, set)} />
      ) : (
        <RewardSet key={set} data={data} set={set} run={run} />
      )}
    </>
  );
}

function NoEvaluation({ problems }: { problems: EvaluationsData["problems"] }) {
  return (
    <>
      <Problems list={problems} />
      <section class="card">
        <h2>This run was not evaluated</h2>
        <p>
          Give <code>train()</code> scenarios to hold out (<code>heldOut</code>), or data to <code>--held-out</code>,
          and what it reaches on them stands here: before, after, and in between every <code>evaluation.every</code>{" "}
          steps.
        </p>
      </section>
    </>
  );
}
