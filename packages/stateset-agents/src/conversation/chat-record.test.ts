import { expect, it } from "vitest";
import { toChatRecord } from "./chat-record.ts";
import type { Trajectory } from "./trajectory.ts";
import { validateMessages } from "./validate-messages.ts";

it("exports a trajectory as a chat that any OpenAI tool reads, and says when a stub made it up", () => {
  const trajectory: Trajectory = {
    id: "t1",
    scenarioId: "refund",
    turns: [
      { role: "user", content: "Hi", metadata: { typed: true } },
      { role: "assistant", content: "Hello", reward: 0.5, sampled: { text: "Hello<end>", finishReason: "stop" } },
    ],
    chains: [],
    reward: { score: 0.75, breakdown: { polite: 1 } },
    ended: "done",
    temperature: 1,
    stub: true,
    metadata: {},
  };
  const record = toChatRecord(trajectory);
  expect(record.messages).toEqual(validateMessages(record.messages));
  expect(record.messages).toEqual([
    { role: "user", content: "Hi" },
    { role: "assistant", content: "Hello" },
  ]);
  expect(record).toMatchObject({ id: "t1", scenarioId: "refund", reward: 0.75, breakdown: { polite: 1 }, stub: true });
  expect(toChatRecord({ ...trajectory, stub: false })).not.toHaveProperty("stub");
});
