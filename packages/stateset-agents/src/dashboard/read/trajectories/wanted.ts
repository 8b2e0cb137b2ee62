/** Which conversations a query means. */
import type { ConversationRecord } from "../../../conversation/record.ts";
import { HttpError } from "../../../server/http-error.ts";
import type { Query } from "../reader.ts";
import type { RowFacts } from "./row-facts.ts";

export function rowFilter({ scenario, scenarioHas, reward, failed }: Query): (row: RowFacts) => boolean {
  const part = scenarioHas?.toLowerCase();
  const rewarded = reward === undefined ? () => true : rewardFilter(reward);
  return (row) => {
    if (scenario !== undefined && row.scenario !== scenario) return false;
    if (part !== undefined && !row.scenario?.toLowerCase().includes(part)) return false;
    if (failed !== undefined && hasFailed(row) !== (failed === "only")) return false;
    return rewarded(row.reward);
  };
}

const hasFailed = ({ failure, leftOut, ended }: RowFacts) =>
  failure !== null || leftOut === "lost" || ended === "failed";

/** `>0.5`, `<=0`, `0.2..0.8`, `1` */
function rewardFilter(text: string): (reward: number | null) => boolean {
  const number = String.raw`(-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)`;
  const [, from, to] = new RegExp(`^\\s*${number}\\s*\\.\\.\\s*${number}\\s*$`, "i").exec(text) ?? [];
  if (from !== undefined) return (reward) => reward !== null && reward >= Number(from) && reward <= Number(to);
  const [, operator = "=", value] = new RegExp(`^\\s*(>=|<=|>|<|=)?\\s*${number}\\s*$`, "i").exec(text) ?? [];
  if (value === undefined) {
    throw new HttpError(400, `${JSON.stringify(text)} is no range of rewards. Write >0.5, <=0, 0.2..0.8 or 1.`, {
      param: "reward",
      code: "reward_invalid",
    });
  }
  const bound = Number(value);
  const tests: Record<string, (reward: number) => boolean> = {
    ">": (reward) => reward > bound,
    ">=": (reward) => reward >= bound,
    "<": (reward) => reward < bound,
    "<=": (reward) => reward <= bound,
    "=": (reward) => reward === bound,
  };
  return (reward) => reward !== null && tests[operator]!(reward);
}

/** Whether somebody says it in a conversation, in any case of letters. */
export function says({ messages, system }: ConversationRecord, text: string): boolean {
  const wanted = text.toLowerCase();
  const has = (said: unknown) => typeof said === "string" && said.toLowerCase().includes(wanted);
  return (
    has(system) ||
    messages.some(
      ({ content, reasoning, tool_calls }) =>
        has(content) || has(reasoning) || (tool_calls !== undefined && has(JSON.stringify(tool_calls))),
    )
  );
}
