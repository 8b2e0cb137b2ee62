/** The replies of one scenario: which won, where they part, and why each has the advantage it has. */
import type { GroupData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { askJson } from "../../data/ask.ts";
import { useKeys } from "../../data/keys.ts";
import { useResource } from "../../data/resource.ts";
import { go, link, place, setQuery } from "../../data/url.ts";
import "../../token/install-colours.ts";
import { Loading } from "../parts/loading.tsx";
import { Near } from "../parts/near.tsx";
import { number, plural } from "../parts/number.ts";
import { Page } from "../parts/page.tsx";
import { Problem, Problems } from "../parts/problem.tsx";
import { RunGone, useGone } from "../parts/run-gone.tsx";
import { Text } from "../parts/text.tsx";
import "../trajectory/trajectory.css";
import { useWrittenAgain } from "../trajectory/use-written-again.ts";
import "./group.css";
import { MemberTable } from "./member-table.tsx";
import { columnsOf, meanReward, sorted, twoToCompare } from "./members.ts";
import { ReplyTree } from "./reply-tree.tsx";
import { rewardColour } from "./reward-colour.ts";
import { SideBySide } from "./side-by-side.tsx";
import { Why } from "./why.tsx";

export function GroupView() {
  const key = place.value.path[1] ?? "";
  const { data, error, reload } = useResource(`group ${key}`, (signal) =>
    askJson<GroupData>(`groups/${encodeURIComponent(key)}`, {}, signal),
  );
  useWrittenAgain(key, reload);
  if (!data) {
    return (
      <Page title="Group" crumbs={[{ text: "group" }]}>
        {error ? <Problem error={error} retry={reload} /> : <Loading what="Reading the group" />}
      </Page>
    );
  }
  return <Group key={key} group={data} />;
}

function Group({ group }: { group: GroupData }) {
  const { run, step, id, scenario, members, tree } = group;
  const { left, right, member } = place.value.query;
  const at = indexIn(members, member);
  const two = twoToCompare(members);
  const colour = rewardColour(members);
  const gone = useGone(group.key);
  useGroupKeys(group, at);
  return (
    <Page
      title={`${scenario ?? id}, step ${step}`}
      crumbs={[
        { text: run, href: link(["run", run]) },
        { text: `step ${step}`, href: link(["run", run, "step", String(step)]) },
        { text: id },
      ]}
      actions={<Around group={group} />}
    >
      {gone && <RunGone />}
      <Problems list={group.problems} />
      <Head group={group} />
      <div class="card">
        <MemberTable members={members} at={at} colour={colour} />
      </div>
      {two && (
        <SideBySide
          members={members}
          left={indexIn(members, left) ?? two[0]}
          right={indexIn(members, right) ?? two[1]}
        />
      )}
      <Why group={group} />
      <section class="card stack" aria-label="The replies as a tree">
        <h2>From what they share</h2>
        {tree ? (
          <ReplyTree group={group} tree={tree} colour={colour} />
        ) : (
          <p class="faint">The tokens of this step were not recorded, so it is not known where the replies part.</p>
        )}
      </section>
    </Page>
  );
}

function indexIn(members: readonly unknown[], text: string | undefined): number | undefined {
  const index = Number(text ?? Number.NaN);
  return Number.isSafeInteger(index) && index >= 0 && index < members.length ? index : undefined;
}

function Head({ group: { scenario, algorithm, members } }: { group: GroupData }) {
  const rewards = members.flatMap(({ reward }) => reward ?? []);
  const mean = meanReward(members, [...members.keys()]);
  const left = members.filter(({ leftOut }) => leftOut !== null).length;
  return (
    <section class="card" aria-label="The group">
      <dl class="facts">
        {scenario !== null && (
          <div>
            <dt>Scenario</dt>
            <dd>
              <Text value={scenario} />
            </dd>
          </div>
        )}
        {algorithm !== null && (
          <div>
            <dt>Algorithm</dt>
            <dd>
              <Text value={algorithm} />
            </dd>
          </div>
        )}
        <div>
          <dt>Members</dt>
          <dd>{members.length}</dd>
        </div>
        {rewards.length > 0 && (
          <>
            <div>
              <dt>Mean reward</dt>
              <dd>
                <strong class="big-number">{number(mean)}</strong>
              </dd>
            </div>
            <div>
              <dt>From … to</dt>
              <dd>
                {number(Math.min(...rewards))} … {number(Math.max(...rewards))}
              </dd>
            </div>
          </>
        )}
        {left > 0 && (
          <div>
            <dt>Not learnt from</dt>
            <dd class="wrong">{plural(left, "member")}</dd>
          </div>
        )}
      </dl>
    </section>
  );
}

function Around({ group: { previous, next } }: { group: GroupData }) {
  const at = (to: string | null) => (to === null ? null : link(["group", to]));
  return (
    <nav class="row around" aria-label="Around it">
      <Near href={at(previous)} name="‹ Previous" title="The group before it in its step ([)" />
      <Near href={at(next)} name="Next ›" title="The group after it in its step (])" />
    </nav>
  );
}

function useGroupKeys({ members, previous, next, run, step }: GroupData, at: number | undefined): void {
  const order = sorted(members, columnsOf(members), place.value.query.sort);
  const move = (by: 1 | -1) => () => {
    const now = at === undefined ? (by === 1 ? -1 : order.length) : order.indexOf(at);
    const to = order[Math.min(order.length - 1, Math.max(0, now + by))];
    setQuery({ member: to?.toString() });
  };
  const group = (key: string | null) => () => {
    if (key !== null) go(["group", key]);
  };
  useKeys([
    { key: "j", does: "The next member", run: move(1) },
    { key: "k", does: "The one before it", run: move(-1) },
    { key: "o", does: "Open the member", run: () => at !== undefined && go(["trajectory", members[at]!.key]) },
    { key: "]", does: "The next group of the step", run: group(next) },
    { key: "[", does: "The group before it", run: group(previous) },
    { key: "g", does: "All groups of the step", run: () => go(["run", run, "step", String(step)]) },
  ]);
}
