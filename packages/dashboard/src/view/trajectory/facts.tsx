/** What became of a conversation: its reward and parts, how it ended, and why nothing was learnt from it, where nothing was. */
import type { TrajectoryData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { Fact } from "../parts/fact.tsx";
import { number, percent, plural } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import { JsonTree } from "./json-tree.tsx";
import type { Look } from "./look.ts";
import { endedWords, failureWords, leftOutWords, type RecordData } from "./record.ts";

export function Facts({ data, look }: { data: TrajectoryData; look: Look | undefined }) {
  const record = data.record as unknown as RecordData;
  const { reward, breakdown, ended, leftOut, side, clip } = data;
  const parts = Object.entries(breakdown);
  return (
    <section class="card trajectory-facts" aria-label="What became of it">
      <dl class="facts">
        {side && (
          <Fact name="Side">
            <span class={`side side-${side}`}>
              {side === "chosen" ? "chosen: to be learnt" : "rejected: to be unlearnt"}
            </span>
          </Fact>
        )}
        {(reward !== null || ended !== null) && (
          <Fact name="Reward">
            <strong class="big-number">{number(reward)}</strong>
          </Fact>
        )}
        {parts.map(([name, value]) => (
          <Fact key={name} name={<Text value={name} />}>
            {number(value)}
          </Fact>
        ))}
        <Fact name="Replies">{number(data.replies)}</Fact>
        <Fact name="Tokens">{number(data.tokens)}</Fact>
        {look && <Clipped look={look} />}
        {clip && (
          <Fact name="Ratios are clipped at">
            {number(clip.low === null ? null : clip.low)} … {number(clip.high)}
          </Fact>
        )}
        {record.temperature !== undefined && <Fact name="Temperature">{number(record.temperature)}</Fact>}
      </dl>
      <ul class="trajectory-words">
        {leftOut && <li class="wrong">Nothing was learnt from it: {leftOutWords(leftOut)}.</li>}
        {record.failure && (
          <li class="wrong">
            <Text value={failureWords(record.failure)} />
          </li>
        )}
        {!record.failure && data.failure && (
          <li class="wrong">
            <Text value={data.failure} />
          </li>
        )}
        {ended && !side && (
          <li>
            <Text value={endedWords(ended)} />
          </li>
        )}
        {record.stub && <li class="wrong">A stub made it up: it can never be trained on.</li>}
        {(record.versions?.length ?? 0) > 1 && (
          <li>The weights changed while it was played: {plural(record.versions!.length, "version")} spoke in it.</li>
        )}
      </ul>
      {record.metadata !== undefined && (
        <details>
          <summary>Notes of the environment</summary>
          <JsonTree value={record.metadata} />
        </details>
      )}
      {record.reward?.metadata !== undefined && (
        <details>
          <summary>Notes of the reward</summary>
          <JsonTree value={record.reward.metadata} />
        </details>
      )}
    </section>
  );
}

function Clipped({ look: { tokens } }: { look: Look }) {
  if (!tokens.clipped) return null;
  const learnt = tokens.learns.reduce((sum, own) => sum + own, 0);
  const clipped = tokens.clipped.reduce((sum, own) => sum + own, 0);
  return (
    <Fact name="Clipped">
      {number(clipped)} of {number(learnt)} ({percent(learnt === 0 ? 0 : clipped / learnt)})
    </Fact>
  );
}
