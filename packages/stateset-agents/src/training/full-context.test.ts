import { describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import { rewardFunction } from "../reward/define-reward.ts";
import { scripted } from "../test-support/scripted-policy.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { callFormats } from "../tool/format/choose-format.ts";
import { tool } from "../tool/tool.ts";
import { train } from "./train.ts";

const call = callFormats.hermes.print([{ name: "look", arguments: "{}" }]);
const reward = rewardFunction({ name: "length" }, ({ turns }) => turns.length);

interface Case {
  contextLength?: number;
  /** What the agent says, time after time. */
  says?: string;
  systemPrompt?: string;
  users?: string[];
  /** Words that the tool returns. */
  result?: number;
}

async function warningsOf({ contextLength = 200, says = call, systemPrompt = "Help.", users, result = 60 }: Case) {
  const words = [call, "word", "Help.", "please", "say", "more"].flatMap((text) => text.split(/\s+/));
  const policy = createTablePolicy({ words, contextLength, spread: 1 });
  const look = tool({ name: "look", execute: () => "word ".repeat(result) });
  const agent = new MultiTurnAgent({
    ...{ policy: scripted(policy, () => ({ text: says })), tools: [look], callFormat: "hermes", systemPrompt },
    ...{ maxToolSteps: 40, sampling: { maxTokens: 30 } },
  });
  const scenarios = [{ id: "a", userResponses: users ?? Array<string>(60).fill("please say more") }];
  const environment = new ConversationEnvironment({ scenarios, maxTurns: 40 });
  const { run } = await train({
    ...{
      agent,
      environment,
      reward,
      dir: false,
      steps: 3,
      groupsPerStep: 1,
      groupSize: 2,
      recall: false,
      maxTurns: 40,
    },
  });
  expect(run.metrics.map(({ contextFull }) => contextFull)).toContain(contextLength > 400 ? 0 : 1);
  return run.warnings.filter(({ kind }) => kind === "context-full").map(({ step, message }) => ({ step, message }));
}

describe("a step whose every conversation filled the context", () => {
  it("is said once, with the size, what filled it and what to change", async () => {
    const said = await warningsOf({});
    expect(said).toHaveLength(1);
    expect(said[0]!.step).toBe(1);
    expect(said[0]!.message).toMatch(
      /every conversation \(2\) ended because the context of .* was full, 200 tokens\. On the average one held 1\d\d tokens in \d tool results, \d+ tokens in \d agent turns, 3 tokens in 1 other turn; .* Lower the agent's maxResultTokens/,
    );
  });

  it("names replies, the user or the prompt, where these are the most", async () => {
    const [replies] = await warningsOf({ says: "word ".repeat(25).trim() });
    expect(replies!.message).toContain("Lower maxTurns (40), sampling.maxTokens or the agent's maxToolSteps.");
    const [users] = await warningsOf({ says: "word", users: Array<string>(60).fill("please ".repeat(30)) });
    expect(users!.message).toContain("or shorten what the environment says.");
    const [prompt] = await warningsOf({ systemPrompt: "Help. ".repeat(300) });
    expect(prompt!.message).toContain("Shorten the system prompt, or show fewer tools.");
    expect(prompt!.message).not.toContain("agent turn");
  });

  it("is not said where one of them ended otherwise", async () => {
    expect(await warningsOf({ contextLength: 1000, says: "word", users: ["please"] })).toEqual([]);
  });
});
