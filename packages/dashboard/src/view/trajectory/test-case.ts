/** A conversation as a test of the reward that is to judge it: pasted into a file of vitest, it runs. */
import type { TrajectoryData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import type { RecordData, Said } from "./record.ts";

type Source = Pick<TrajectoryData, "run" | "step" | "id" | "scenario" | "reward" | "ended"> & { record: RecordData };

export function testCase({ run, step, id, scenario, reward, ended, record }: Source): string {
  const name = scenario ?? id;
  const conversation = {
    scenario: { id: name },
    turns: record.messages.map(turnOf),
    ...(ended !== null && { ended }),
  };
  const score = reward ?? 0;
  return [
    `import { explain, rewardFunction, type RewardInput } from "stateset-agents/rewards";`,
    `import { expect, test } from "vitest";`,
    "",
    `// ${oneLine(`${id} of step ${step} in the run ${run}`)}, where it got ${reward ?? "no reward"}.`,
    `const conversation: RewardInput = ${code(conversation)};`,
    "",
    "// Put the reward you test in its place.",
    `const reward = rewardFunction({ name: "reward" }, () => ${score});`,
    "",
    `test(${code(`${name}: is rewarded with ${score}`)}, async () => {`,
    "  const explanation = await explain(reward, conversation);",
    `  expect(explanation.score, String(explanation)).toBeCloseTo(${score});`,
    "});",
    "",
  ].join("\n");
}

/** What the chat format knows of a message, and nothing else. */
function turnOf({ role, content, name, reasoning, tool_calls, tool_call_id }: Said): object {
  return {
    role,
    content,
    ...(typeof name === "string" && { name }),
    ...(typeof reasoning === "string" && { reasoning }),
    ...(Array.isArray(tool_calls) && { tool_calls }),
    ...(typeof tool_call_id === "string" && { tool_call_id }),
  };
}

// JSON is TypeScript; what it leaves raw and an editor would show as nothing is escaped too.
const code = (value: unknown) =>
  JSON.stringify(value, null, 2).replace(
    /[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

const oneLine = (text: string) => text.replace(/[\p{C}\u2028\u2029]/gu, "?");
