import { expect, it } from "vitest";
import { MultiTurnAgent } from "../../agent/multi-turn-agent.ts";
import { createJudge } from "../../endpoint/judge.ts";
import type { JudgeModel } from "../../endpoint/judge-model.ts";
import { ConversationEnvironment } from "../../environment/conversation-environment.ts";
import { createTablePolicy } from "../../test-support/table-policy.ts";
import { train } from "../../training/train.ts";
import { judgeReward } from "./judge-reward.ts";

/** Ranks a group by how often each conversation says "please"; now and then it talks nonsense. */
function politeJudge(nonsenseEvery: number): JudgeModel {
  let calls = 0;
  return {
    id: "polite",
    async complete({ messages }) {
      if (++calls % nonsenseEvery === 0) return { text: "I cannot decide." };
      const blocks = messages[1]!.content.split(/Conversation \d+ \(JSON\):/).slice(1);
      const scores = blocks.map((block, i) => ({
        id: i + 1,
        score: Math.min(1, (block.match(/please/g) ?? []).length / 6),
      }));
      return { text: JSON.stringify({ scores }) };
    },
  };
}

it("teaches a policy through train(): one question a group, failures reported and never learnt from", async () => {
  const policy = createTablePolicy({ words: ["please", "no", "well", "order", "late"] });
  const judge = createJudge({ model: politeJudge(7), retry: { attempts: 1 } });
  const { run } = await train({
    agent: new MultiTurnAgent({ policy, sampling: { maxTokens: 6 } }),
    environment: new ConversationEnvironment({ scenarios: [{ id: "late", userResponses: ["order late"] }] }),
    reward: judgeReward({ judge, rubric: "Says please.", mode: "listwise" }),
    steps: 30,
    groupsPerStep: 2,
    groupSize: 8,
    learningRate: 0.2,
    dir: false,
  });
  const rewards = run.metrics.flatMap((metrics) => (metrics.reward === undefined ? [] : [metrics.reward]));
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  expect(mean(rewards.slice(-5))).toBeGreaterThan(mean(rewards.slice(0, 5)) + 0.3);
  const stats = judge.stats();
  // One more for the look at the scenario before the first step.
  expect(stats.questions).toBe(61);
  expect(stats.failed).toBeGreaterThan(4);
  const failures = run.metrics.reduce((sum, metrics) => sum + metrics.rewardFailures!, 0);
  expect(failures).toBe(stats.failed * 8);
  expect(run.warnings.some(({ message }) => message.includes("could not be read"))).toBe(true);
});
