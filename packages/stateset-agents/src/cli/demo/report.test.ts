import { createColors } from "picocolors";
import { describe, expect, it } from "vitest";
import type { Trajectory } from "../../conversation/trajectory.ts";
import type { Evaluation } from "../../evaluation/evaluate.ts";
import { comparisonTable, conclusion, conversationPair, measuresOf } from "./report.ts";

const colors = createColors(false);

function talk(...replies: string[]): Trajectory {
  const turns = replies.flatMap((content, i) => [
    { role: "user" as const, content: `Question ${i + 1}?` },
    { role: "assistant" as const, content },
  ]);
  return {
    id: "t",
    scenarioId: "s",
    turns,
    chains: [],
    reward: { score: 0, breakdown: {} },
    ended: "done",
    temperature: 1,
    stub: false,
    metadata: {},
  };
}

const estimate = (mean: number) => ({ mean, low: mean - 0.1, high: mean + 0.1, count: 4 });
const evaluation = (reward: number, words: number, ...talks: Trajectory[]): Evaluation => ({
  reward: estimate(reward),
  words: estimate(words),
  parts: {},
  scenarios: [],
  failed: 0,
  failureScore: 0,
  lost: 0,
  failures: [],
  partFailures: {},
  stub: false,
  groups: talks.map((trajectory, i) => ({ id: `${i}`, scenarioId: `${i}`, trajectories: [trajectory] })),
});

describe("the demo's report", () => {
  const before = measuresOf(
    evaluation(0.5, 20, talk("Which order?", "Thank you. It ships today."), talk("No.", "Wait.")),
  );
  const after = measuresOf(evaluation(0.9, 9, talk("Thank you. Which order?", "I am happy to help. It ships today.")));

  it("counts replies with a courtesy", () => {
    expect(before.politeness.mean).toBe(0.25);
    expect(after.politeness.mean).toBe(1);
  });

  it("sets before beside after, with intervals", () => {
    const lines = comparisonTable(before, after, colors).join("\n");
    expect(lines).toMatch(/polite replies\s+25% .*100%/);
    expect(lines).toMatch(/words per reply\s+20\.0 \[19\.9, 20\.1\]\s+9\.0 \[8\.9, 9\.1\]/);
    expect(lines).toMatch(/reward\s+0\.500 \[0\.400, 0\.600\]\s+0\.900 \[0\.800, 1\.000\]/);
  });

  it("claims a change only when scenarios, in pairs, bear it out", () => {
    const of = (...means: number[]): Evaluation => ({
      ...evaluation(0, 0),
      scenarios: means.map((mean, i) => ({ id: `${i}`, mean, spread: 0, samples: 1, failed: 0, words: 1 })),
    });
    const [low, high] = [of(0.1, 0.2, 0.3, 0.1, 0.2, 0.3), of(0.9, 0.8, 0.7, 0.9, 0.8, 0.9)];
    expect(conclusion(low, high, colors)).toMatch(/better: \+0\.\d+ \[.*\] over 6 scenarios, p = 0\.031/);
    expect(conclusion(high, low, colors)).toContain("worse");
    expect(conclusion(low, of(0.3, 0.2, 0.1, 0.3, 0.2, 0.1), colors)).toContain("Chance may explain");
    expect(conclusion(of(0.1, 0.2), of(0.9, 0.9), colors)).toContain("2 scenarios are too few to tell");
  });

  it("keeps the turns of two conversations level, also when one reply is longer", () => {
    const long = "I have looked at everything there is to look at and it is on its way to you now";
    const lines = conversationPair(talk(long, "Bye."), talk("Thanks.", "Bye now."), 60, colors);
    expect(lines.every((line) => line.length <= 60)).toBe(true);
    const second = lines.filter((line) => line.includes("Question 2?"));
    expect(second.length).toBe(1);
    expect(second[0]!.split("│").every((half) => half.includes("Question 2?"))).toBe(true);
  });

  it("shows calls and results beside each other, each conversation at its own pace", () => {
    const called = (name: string): Trajectory["turns"][number] => ({
      ...{ role: "assistant", content: "" },
      tool_calls: [{ id: "1", type: "function", function: { name, arguments: '{"order_id": "7"}' } }],
    });
    const result = { role: "tool" as const, tool_call_id: "1", content: '{"status":"open"}' };
    const ask = { role: "user" as const, content: "Cancel 7." };
    const said = (content: string) => ({ role: "assistant" as const, content });
    const before = { ...talk(), turns: [ask, said("No.")] };
    const turns = [ask, called("get_order"), result, said("It is open.")];
    expect(conversationPair(before, { ...talk(), turns }, 80, colors)).toEqual([
      "before                                 │ after",
      "customer: Cancel 7.                    │ customer: Cancel 7.",
      'agent: No.                             │ → get_order {"order_id": "7"}',
      '                                       │ ← {"status":"open"}',
      "                                       │ agent: It is open.",
    ]);
  });
});
