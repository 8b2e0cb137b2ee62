/** One running run: how far it is, how fast, and what the step's conversations reach so far. */
import type { ConfigData, LiveConversation, RunRow } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { askJson } from "../../data/ask.ts";
import { useResource } from "../../data/resource.ts";
import { link } from "../../data/url.ts";
import { Fact } from "../parts/fact.tsx";
import { compact, moment, number, plural } from "../parts/number.ts";
import { RunState } from "../parts/run-state.tsx";
import { Text } from "../parts/text.tsx";
import { statisticsOf, stepsNow } from "./groups.ts";

interface Props {
  row: RunRow;
  /** Of all runs. */
  conversations: readonly LiveConversation[];
  linked: boolean;
}

export function RunLine({ row, conversations, linked }: Props) {
  const { data } = useResource(`config ${row.key}`, (signal) =>
    askJson<ConfigData>(`runs/${encodeURIComponent(row.key)}/config`, {}, signal),
  );
  const expected = expectedOf(data?.config ?? null);
  const own = conversations.filter(({ run }) => run === row.key);
  const step = stepsNow(own).get(row.key) ?? row.step;
  const { count, rewarded, failed, waiting, mean, spread, min, max } = statisticsOf(
    own.filter((one) => one.step === step),
  );
  const done = row.step >= step;
  return (
    <li class="live-run">
      <div class="live-run-head">
        <RunState state={row.state} />
        <a href={link([linked ? "live" : "run", row.key])} title={linked ? "This run alone" : "Its curves"}>
          <Text value={row.id} />
        </a>
        {row.reason !== null && (
          <span class="faint">
            <Text value={row.reason} />
          </span>
        )}
      </div>
      <dl class="live-facts">
        <Fact name="step">
          {number(step)}
          {row.steps !== null && ` of ${number(row.steps)}`}
          {row.steps !== null && row.steps > 0 && (
            <progress value={row.step} max={row.steps} aria-label={`${row.step} of ${row.steps} steps done`} />
          )}
        </Fact>
        <Fact name="conversations">
          {number(count)}
          {expected !== undefined && ` of ${number(expected)}`}
          {expected !== undefined && (
            <progress
              value={done ? expected : Math.min(count, expected)}
              max={expected}
              aria-label={`${count} of ${expected} conversations of the step`}
            />
          )}
        </Fact>
        <Fact name="reward so far">
          {mean === null ? "–" : number(mean, 3)}
          {spread !== null && <span class="faint"> ± {number(spread, 2)}</span>}
          {min !== null && max !== null && rewarded > 1 && (
            <span class="faint">
              {" "}
              ({number(min, 2)} – {number(max, 2)})
            </span>
          )}
        </Fact>
        <Fact name="waiting for a reward">{number(waiting)}</Fact>
        {failed > 0 && <Fact name="failed">{number(failed)}</Fact>}
        <Fact name="tokens/s">{compact(row.tokensPerSecond)}</Fact>
        {row.state !== "running" && row.heartbeatAt !== null && <Fact name="last sign">{moment(row.heartbeatAt)}</Fact>}
      </dl>
      <p class="unseen">{plural(count, "conversation")} ended in this step.</p>
    </li>
  );
}

/** How many conversations a step has; groups that are refused and sampled anew come on top. */
function expectedOf(config: ConfigData["config"]): number | undefined {
  const settings = config?.settings as Record<string, unknown> | undefined;
  const [groups, rounds, size] = ["groupsPerStep", "accumulation", "groupSize"].map((name) => settings?.[name]);
  return typeof groups === "number" && typeof rounds === "number" && typeof size === "number"
    ? groups * rounds * size
    : undefined;
}
