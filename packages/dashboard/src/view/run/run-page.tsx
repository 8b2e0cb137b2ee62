/** One run. */
import { useMemo } from "preact/hooks";
import { useChanges } from "../../data/follow.ts";
import { useKeys } from "../../data/keys.ts";
import { go, link, setQuery } from "../../data/url.ts";
import { Boundary } from "../parts/boundary.tsx";
import { Loading } from "../parts/loading.tsx";
import { Page } from "../parts/page.tsx";
import { Problem, Problems } from "../parts/problem.tsx";
import { RunGone } from "../parts/run-gone.tsx";
import { Controls } from "./controls.tsx";
import { Curves } from "./curves.tsx";
import { Files } from "./files.tsx";
import { HappeningList } from "./happening-list.tsx";
import { RunHead } from "./head.tsx";
import { happenings } from "./marks.ts";
import { Settings } from "./settings.tsx";
import { TimeSplit } from "./time-split.tsx";
import { useRun } from "./use-run.ts";

export function RunPage({ run: key }: { run: string }) {
  const changes = useChanges([key]);
  const gone = changes.gone.length > 0;
  const { run, events, evaluations } = useRun(key, changes.count);
  const list = useMemo(() => happenings(events.data?.events ?? []), [events.data]);
  const last = run.data?.recordedSteps.at(-1);
  useKeys([
    { key: "s", does: "Conversations of the last recorded step", run: () => last !== undefined && go(step(key, last)) },
    { key: "v", does: "Evaluation", run: () => go(["evaluation", key]) },
    { key: "w", does: "Watch it live", run: () => go(["live", key]) },
    {
      key: "l",
      does: "Logarithmic scale",
      run: () => setQuery({ log: location.hash.includes("log=1") ? undefined : "1" }),
    },
  ]);
  const shown = run.data;
  return (
    <Page
      title={shown?.id ?? key}
      crumbs={[{ text: shown?.id ?? key }]}
      actions={
        shown && (
          <>
            {!shown.readOnly && <Controls run={shown} onChange={changes.again} />}
            <a class="button quiet" href={link(["live", key])}>
              Live
            </a>
            <a class="button quiet" href={link(["evaluation", key])}>
              Evaluation
            </a>
            {last !== undefined && (
              <a class="button quiet" href={link(step(key, last))}>
                Conversations
              </a>
            )}
          </>
        )
      }
    >
      {gone && <RunGone />}
      {run.error && !gone && <Problem error={run.error} retry={run.reload} />}
      {!shown && !run.error && <Loading what="Reading the run" />}
      {shown && (
        <>
          {/* Those of its events are among the run's. */}
          <Problems list={[...shown.problems, ...(evaluations.data?.problems ?? [])]} />
          <RunHead run={shown} onChange={changes.again} />
          <div class="run-body">
            <Boundary what="The curves">
              <Curves run={shown} happenings={list} evaluations={evaluations.data} changes={changes.count} />
            </Boundary>
            <aside class="run-side" aria-label="About the run">
              <section class="card">
                <h2>What was noticed</h2>
                {events.error ? <Problem error={events.error} /> : <HappeningList list={list} run={shown} />}
              </section>
              <section class="card">
                <h2>Where the time went</h2>
                <TimeSplit time={shown.time} />
              </section>
              <section class="card">
                <h2>Settings</h2>
                <Boundary what="The settings">
                  <Settings run={key} />
                </Boundary>
              </section>
              <section class="card">
                <h2>Files</h2>
                <Files run={shown} />
              </section>
            </aside>
          </div>
        </>
      )}
    </Page>
  );
}

const step = (run: string, at: number) => ["run", run, "step", String(at)];
