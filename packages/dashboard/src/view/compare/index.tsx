/** `#/compare?runs=a,b,c`: how runs differ in what they were told, how they went, and what they reached. */
import type { CompareData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { askJson } from "../../data/ask.ts";
import { useChanges, useFollowed } from "../../data/follow.ts";
import { joinNames } from "../../data/list.ts";
import { place, setQuery } from "../../data/url.ts";
import { Loading } from "../parts/loading.tsx";
import { Page } from "../parts/page.tsx";
import { Problem, Problems } from "../parts/problem.tsx";
import { Text } from "../parts/text.tsx";
import { askedRuns, compareQuery } from "./asks.ts";
import "./compare.css";
import { Curves } from "./curves.tsx";
import { HeldOut } from "./held-out.tsx";
import { HowTo } from "./how-to.tsx";
import { Picker } from "./picker.tsx";
import { Scenarios } from "./scenarios.tsx";
import { Settings } from "./settings.tsx";

export function CompareView() {
  const asked = askedRuns(place.value.query);
  const { count } = useChanges(asked);
  return (
    <Page title="Compare runs" crumbs={[{ text: "Compare" }]}>
      <Picker asked={asked} choose={chooseRuns} />
      {asked.length === 0 ? <HowTo /> : <Compared asked={asked} changes={count} />}
    </Page>
  );
}

function chooseRuns(runs: readonly string[]): void {
  setQuery({ runs: joinNames(runs) }, { replace: false });
}

function Compared({ asked, changes }: { asked: readonly string[]; changes: number }) {
  const query = compareQuery(asked);
  const { data, error, reload } = useFollowed(JSON.stringify(query), changes, (signal) =>
    askJson<CompareData>("compare", query, signal),
  );
  if (error && !data) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading what="Comparing" />;
  const gone = asked.filter((key) => !data.runs.some((run) => run.key === key));
  const colours = new Map(asked.map((key, i) => [key, i]));
  return (
    <>
      {error && <Problem error={error} retry={reload} />}
      {gone.length > 0 && (
        <p class="notice" role="status">
          No longer there:{" "}
          {gone.map((key, i) => (
            <>
              {i > 0 && ", "}
              <strong>
                <Text value={key} />
              </strong>
            </>
          ))}
          .{" "}
          <button
            type="button"
            class="button small"
            onClick={() => chooseRuns(asked.filter((key) => !gone.includes(key)))}
          >
            Leave out
          </button>
        </p>
      )}
      <Problems list={data.problems.filter(({ where }) => !gone.includes(where))} />
      {data.runs.length === 1 && (
        <p class="notice">
          One run is shown. Add another one to see how they differ, or one with another seed to see how far chance goes.
        </p>
      )}
      {data.runs.length > 0 && (
        <>
          <Curves data={data} colours={colours} changes={changes} />
          <HeldOut data={data} colours={colours} />
          <Settings data={data} colours={colours} />
          <Scenarios data={data} colours={colours} />
        </>
      )}
    </>
  );
}
