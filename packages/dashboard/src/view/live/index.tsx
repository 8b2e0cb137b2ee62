/** `#/live` and `#/live/<run>`: conversations of the running step as they end. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useKeys } from "../../data/keys.ts";
import { link, place, setQuery } from "../../data/url.ts";
import { Loading } from "../parts/loading.tsx";
import { Page } from "../parts/page.tsx";
import { Problem, Problems } from "../parts/problem.tsx";
import { Text } from "../parts/text.tsx";
import { Announcer } from "./announcer.tsx";
import { Controls } from "./controls.tsx";
import { nameOf } from "./gather.ts";
import { chosen, type Wanted } from "./groups.ts";
import "./live.css";
import { NoRun } from "./no-run.tsx";
import { RunLine } from "./run-line.tsx";
import { Stream } from "./stream.tsx";
import { useLive } from "./use-live.ts";

export function LiveView() {
  const run = place.value.path[1];
  return <Watch key={run ?? ""} run={run} />;
}

function Watch({ run }: { run: string | undefined }) {
  const { state, loading, error, retry } = useLive(run);
  const { query } = place.value;
  const grouped = query.order === "groups";
  const wanted: Wanted = {
    scenario: query.scenario,
    failedOnly: query.failed === "only",
    allSteps: query.steps === "all",
  };

  const all = useMemo(() => [...state.conversations.values()], [state.conversations]);
  const hold = useHold(all.map(nameOf));
  const shown = useMemo(
    () => chosen(hold.names ? all.filter((one) => hold.names?.has(nameOf(one))) : all, wanted),
    [all, hold.names, wanted.scenario, wanted.failedOnly, wanted.allSteps],
  );
  const scenarios = useMemo(() => [...new Set(all.map(({ scenario }) => scenario ?? ""))].sort(), [all]);

  useKeys([
    { key: " ", does: hold.paused ? "Go on showing new conversations" : "Pause", run: hold.toggle },
    {
      key: "g",
      does: grouped ? "Newest first" : "By group",
      run: () => setQuery({ order: grouped ? undefined : "groups" }),
    },
    {
      key: "f",
      does: "Failed ones only, or all",
      run: () => setQuery({ failed: wanted.failedOnly ? undefined : "only" }),
    },
    {
      key: "a",
      does: "All steps, or the running one",
      run: () => setQuery({ steps: wanted.allSteps ? undefined : "all" }),
    },
  ]);

  const rows = [...state.rows.values()].sort((a, b) => b.startedAt - a.startedAt);
  const crumbs = run === undefined ? [{ text: "Live" }] : [{ text: run, href: link(["run", run]) }, { text: "Live" }];
  return (
    <Page
      title={run === undefined ? "Live" : `Live: ${run}`}
      crumbs={crumbs}
      actions={
        run !== undefined && (
          <a class="button quiet" href={link(["live"])}>
            All running runs
          </a>
        )
      }
    >
      {error && <Problem error={error} retry={retry} />}
      {state.gone.length > 0 && (
        <p class="live-gone" role="status">
          No longer there: <Text value={state.gone.join(", ")} />
        </p>
      )}
      {loading && rows.length === 0 && <Loading what="Looking for runs that train" />}
      {!loading && !error && rows.length === 0 && state.gone.length === 0 && <NoRun />}
      {rows.length > 0 && (
        <>
          <ul class="live-runs" aria-label="Runs">
            {rows.map((row) => (
              <RunLine key={row.key} row={row} conversations={all} linked={run === undefined} />
            ))}
          </ul>
          <Problems list={[...state.problems.values()].flat()} />
          <Controls hold={hold} grouped={grouped} wanted={wanted} scenarios={scenarios} shown={shown} />
          <Stream conversations={shown} grouped={grouped} several={rows.length > 1} waiting={all.length === 0} />
          <Announcer rows={rows} conversations={all} paused={hold.paused} />
        </>
      )}
    </Page>
  );
}

export interface Hold {
  /** What is shown while it is held; undefined: everything. */
  names: ReadonlySet<string> | undefined;
  /** How many came since. */
  waiting: number;
  paused: boolean;
  toggle(): void;
}

/** New ones would push away what somebody reads: they wait while the reader paused, or is further down in the list. */
function useHold(names: readonly string[]): Hold {
  const latest = useRef(names);
  latest.current = names;
  const [paused, setPaused] = useState(false);
  const [held, setHeld] = useState<ReadonlySet<string>>();
  const scrolled = useScrolled();
  const holding = paused || scrolled;
  useEffect(() => setHeld(holding ? new Set(latest.current) : undefined), [holding]);
  const waiting = held ? names.filter((name) => !held.has(name)).length : 0;
  return {
    names: held,
    waiting,
    paused: holding,
    toggle() {
      if (scrolled) scrollTo({ top: 0 });
      setPaused(!holding);
    },
  };
}

function useScrolled(): boolean {
  const [scrolled, setScrolled] = useState(false);
  useEffect(() => {
    const look = () => setScrolled(scrollY > 240);
    addEventListener("scroll", look, { passive: true });
    return () => removeEventListener("scroll", look);
  }, []);
  return scrolled;
}
