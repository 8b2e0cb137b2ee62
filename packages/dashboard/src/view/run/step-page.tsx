/** The conversations of one recorded step, or of all of them, by group. */
import type { ComponentChild } from "preact";
import { useCallback, useEffect, useMemo, useRef } from "preact/hooks";
import type { RunData, TrajectoryRow } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { askJson } from "../../data/ask.ts";
import { useChanges, useFollowed } from "../../data/follow.ts";
import { useKeys } from "../../data/keys.ts";
import { go, link, place, setQuery } from "../../data/url.ts";
import { Loading } from "../parts/loading.tsx";
import { number, plural } from "../parts/number.ts";
import { Page } from "../parts/page.tsx";
import { Problem, Problems } from "../parts/problem.tsx";
import { RunGone } from "../parts/run-gone.tsx";
import { VirtualList, type VirtualListHandle } from "../parts/virtual-list.tsx";
import { nearestStep } from "./marks.ts";
import { StepFilters } from "./step-filters.tsx";
import { type StepLine, stepLines } from "./step-groups.ts";
import { ConversationLine, GroupHead } from "./step-line.tsx";
import { StepPicker } from "./step-picker.tsx";
import { useTrajectories } from "./use-trajectories.ts";

/** `step` undefined: all of them. */
export function StepPage({ run: key, step }: { run: string; step: number | undefined }) {
  const { query } = place.value;
  const { scenario, reward, failed, text, set, sort, row: current } = query;
  const changes = useChanges([key]);
  const gone = changes.gone.length > 0;
  const path = `runs/${encodeURIComponent(key)}`;
  const run = useFollowed(path, changes.count, (signal) => askJson<RunData>(path, {}, signal));
  const asked = { step, scenarioHas: scenario, reward, failed, text, set, sort };
  const found = useTrajectories(key, asked, changes.count);
  const rows = found.data?.rows ?? [];
  const lines = useMemo(() => stepLines(rows), [found.data]);
  const range = useMemo(() => rewardRange(rows.map((row) => row.reward)), [found.data]);
  const render = useRender(lines, range, step === undefined);
  const list = useRef<VirtualListHandle>(null);
  const search = useRef<HTMLInputElement>(null);
  const recorded = run.data?.recordedSteps ?? [];
  const at = step === undefined ? -1 : recorded.indexOf(step);
  const to = (other: number | undefined) => {
    const { row: _, ...kept } = query;
    if (other !== undefined) go(["run", key, "step", String(other)], kept);
  };
  const move = (by: number) => {
    const from = lines.findIndex((line) => line.kind === "conversation" && line.row.key === current);
    let next = from < 0 && by < 0 ? lines.length - 1 : from + by;
    while (lines[next]?.kind === "group") next += by;
    const line = lines[next];
    if (line?.kind !== "conversation") return;
    setQuery({ row: line.row.key });
    list.current?.scrollTo(next);
    requestAnimationFrame(() =>
      requestAnimationFrame(() =>
        document.querySelector<HTMLElement>(`[data-row="${CSS.escape(line.row.key)}"]`)?.focus(),
      ),
    );
  };
  useKeys([
    { key: "j", does: "Next conversation", run: () => move(1) },
    { key: "k", does: "Conversation before", run: () => move(-1) },
    { key: "Enter", does: "Open the conversation", run: () => current && go(["trajectory", current]) },
    {
      key: "g",
      does: "Its group",
      run: () => {
        const group = rows.find((row) => row.key === current)?.group;
        if (group) go(["group", group]);
      },
    },
    { key: "[", does: "Recorded step before", run: () => to(recorded[at - 1]) },
    { key: "]", does: "Next recorded step", run: () => to(recorded[at + 1]) },
    { key: "/", does: "Find what was said", run: () => search.current?.focus() },
    { key: "u", does: "The run", run: () => go(["run", key]) },
  ]);
  // Coming back, one sees the conversation that was gone to.
  const there = found.data !== undefined;
  useEffect(() => {
    const line = lines.findIndex((one) => one.kind === "conversation" && one.row.key === current);
    if (line > 0) list.current?.scrollTo(line, "center");
  }, [there]);
  const id = run.data?.id ?? key;
  const near = step === undefined ? undefined : nearestStep(recorded, step);
  const name = step === undefined ? "all steps" : `step ${number(step)}`;
  return (
    <Page title={`${id}, ${name}`} crumbs={[{ text: id, href: link(["run", key]) }, { text: name }]}>
      <div class="step-bar">
        <StepPicker recorded={recorded} step={step} onStep={to} run={key} />
        <StepFilters query={query} wrong={found.error?.param ?? null} text={search} />
        <span class="faint" role="status">
          {found.data &&
            (found.data.total === null ? `${number(rows.length)} so far` : plural(found.data.total, "conversation"))}
        </span>
      </div>
      {gone && <RunGone />}
      {run.error && !gone && <Problem error={run.error} retry={run.reload} />}
      {found.error && !run.error && !gone && <Problem error={found.error} retry={found.reload} />}
      {found.data && <Problems list={found.data.problems} />}
      {!found.data && !found.error && <Loading what="Reading conversations" />}
      {found.data && rows.length === 0 && (
        <div class="empty" data-testid="empty">
          <p>
            {step !== undefined && at < 0 && set !== "evaluation"
              ? `Step ${step} was not recorded.`
              : "No conversation fits."}
          </p>
          {step !== undefined && at < 0 && near !== undefined && set !== "evaluation" && (
            <a class="button" href={link(["run", key, "step", String(near)], query)}>
              Step {number(near)}, the nearest that was
            </a>
          )}
          {recorded.length === 0 && <p class="faint">This run recorded none. How many are kept: trajectories.every.</p>}
        </div>
      )}
      {rows.length > 0 && (
        <VirtualList
          handle={list}
          scroll="page"
          class="step-list"
          label="Conversations"
          count={lines.length}
          estimate={(i) => (lines[i]?.kind === "group" ? 36 : 30)}
          keyOf={(i) => {
            const line = lines[i]!;
            return line.kind === "group" ? `group ${line.step} ${line.key ?? line.scenario} ${i}` : line.row.key;
          }}
          onEnd={found.more}
          render={render}
        />
      )}
    </Page>
  );
}

/** A conversation that was drawn is not drawn again when the next page of them comes: it comes while somebody scrolls. */
function useRender(lines: readonly StepLine[], { low, high }: { low: number; high: number }, showStep: boolean) {
  const drawn = useMemo(() => new WeakMap<TrajectoryRow, ComponentChild>(), [low, high]);
  return useCallback(
    (index: number): ComponentChild => {
      const line = lines[index];
      if (!line) return null;
      if (line.kind === "group") return <GroupHead line={line} showStep={showStep} />;
      const known = drawn.get(line.row) ?? <ConversationLine row={line.row} range={{ low, high }} />;
      drawn.set(line.row, known);
      return known;
    },
    [lines, drawn, showStep],
  );
}

function rewardRange(rewards: readonly (number | null)[]): { low: number; high: number } {
  const known = rewards.filter((reward): reward is number => reward !== null);
  return { low: Math.min(0, ...known), high: Math.max(...known, Number.MIN_VALUE) };
}
