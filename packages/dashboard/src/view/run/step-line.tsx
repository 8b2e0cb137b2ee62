/** A group, and a conversation of it, in the list of a step. */
import type { TrajectoryRow } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { link, setQuery } from "../../data/url.ts";
import { number, plural } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import type { GroupLine } from "./step-groups.ts";

export function GroupHead({ line, showStep }: { line: GroupLine; showStep: boolean }) {
  return (
    <div class="step-group" data-testid="step-group">
      <span class="grow cut">
        {showStep && <span class="faint">step {number(line.step)} · </span>}
        <Text value={line.scenario ?? "no scenario"} />
      </span>
      <span class="faint">{plural(line.count, "conversation")}</span>
      {line.mean !== null && (
        <span>
          reward <strong>{number(line.mean, 3)}</strong>
          {line.spread !== null && <span class="faint"> ± {number(line.spread, 3)}</span>}
        </span>
      )}
      {line.key !== null && (
        <a class="button small" href={link(["group", line.key])}>
          Group
        </a>
      )}
    </div>
  );
}

export function ConversationLine({ row, range }: { row: TrajectoryRow; range: { low: number; high: number } }) {
  const share =
    row.reward === null || range.high === range.low ? 0 : (row.reward - range.low) / (range.high - range.low);
  return (
    <a
      class="step-line"
      href={link(["trajectory", row.key])}
      data-row={row.key}
      data-testid="conversation"
      onClick={() => setQuery({ row: row.key })}
    >
      <span class="step-reward">
        <span class="bar" aria-hidden="true">
          <span style={{ width: `${Math.round(share * 100)}%` }} />
        </span>
        <span class="unseen">reward </span>
        {number(row.reward, 3)}
      </span>
      <span class="step-said cut">
        {row.side && <span class="chip">{row.side}</span>}
        {row.failure !== null && <span class="chip tone-bad">failed</span>}
        {row.leftOut && <span class="chip tone-warn">{row.leftOut}</span>}{" "}
        <Text value={row.failure ?? row.snippet.replace(/\s+/g, " ")} />
      </span>
      <span class="faint step-size">
        {plural(row.replies, "reply", "replies")} · {plural(row.tokens, "token")}
        {row.ended && row.ended !== "done" && (
          <>
            {" · "}
            <Text value={row.ended} />
          </>
        )}
      </span>
    </a>
  );
}
