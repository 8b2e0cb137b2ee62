/** The replies of a group, one a row. */
import type { ComponentChild } from "preact";
import { link, place, setQuery } from "../../data/url.ts";
import { number, percent } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import { endedWords, leftOutWords } from "../trajectory/record.ts";
import { type Column, columnsOf, type Member, sorted } from "./members.ts";

interface Props {
  members: readonly Member[];
  /** The row that keys are on. */
  at: number | undefined;
  colour: (reward: number | null) => string;
}

export function MemberTable({ members, at, colour }: Props) {
  const { sort } = place.value.query;
  const columns = columnsOf(members);
  const order = sorted(members, columns, sort);
  return (
    <div class="member-table" role="region" aria-label="Members" tabIndex={0}>
      <table class="table">
        <thead>
          <tr>
            <th scope="col">Member</th>
            {columns.map((column, i) => (
              <SortHead key={column.name} column={column} sort={sort} first={i === 0} />
            ))}
            <th scope="col">What became of it</th>
          </tr>
        </thead>
        <tbody>
          {order.map((i) => (
            <tr key={i} class={i === at ? "at" : undefined} aria-current={i === at ? "true" : undefined}>
              <th scope="row">
                <a href={link(["trajectory", members[i]!.key])}>
                  <Text value={members[i]!.id} />
                </a>
              </th>
              {columns.map((column) => (
                <td key={column.name} class={typeof column.value(members[i]!) === "string" ? "" : "right"}>
                  {cell(column, members[i]!, colour)}
                </td>
              ))}
              <td>
                <Became member={members[i]!} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function SortHead({
  column: { name, label, title },
  sort,
  first,
}: {
  column: Column;
  sort: string | undefined;
  first: boolean;
}) {
  const down = sort === name || (first && sort === undefined);
  const up = sort === `-${name}`;
  const next = down ? `-${name}` : name;
  return (
    <th
      scope="col"
      class={name === "ended" ? "" : "right"}
      aria-sort={down ? "descending" : up ? "ascending" : undefined}
    >
      <button type="button" class="sort" title={title} onClick={() => setQuery({ sort: next })}>
        <Text value={label} />
        {down ? " ↓" : up ? " ↑" : ""}
      </button>
    </th>
  );
}

function cell({ name, value }: Column, member: Member, colour: Props["colour"]): ComponentChild {
  const own = value(member);
  if (name === "reward") return <span class={`reward ${colour(member.reward)}`}>{number(own as number | null)}</span>;
  if (name === "clipped") return percent(own as number | null);
  if (name === "tokens") {
    return (
      <>
        {number(own as number)} <span class="faint">of {number(member.tokens)}</span>
      </>
    );
  }
  if (name === "ended") return own === null ? "–" : <Text value={endedWords(String(own))} />;
  return number(own as number | null);
}

function Became({ member: { leftOut, failure, side } }: { member: Member }) {
  if (side) return <span class={`side side-${side}`}>{side}</span>;
  if (!leftOut && !failure) return <span class="faint">learnt from</span>;
  return (
    <>
      {leftOut && (
        <span class="chip chip-warn" title={`Nothing was learnt from it: ${leftOutWords(leftOut)}.`}>
          {leftOut}
        </span>
      )}{" "}
      {failure && (
        <span class="wrong">
          <Text value={failure} />
        </span>
      )}
    </>
  );
}
