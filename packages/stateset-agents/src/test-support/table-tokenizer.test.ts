import { expect, it } from "vitest";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import type { Turn } from "../conversation/trajectory.ts";
import { createTablePolicy } from "./table-policy.ts";

it("goes on with one chain through every reply of a conversation", async () => {
  const policy = createTablePolicy({ spread: 1 });
  const agent = new MultiTurnAgent({ policy, sampling: { maxTokens: 6 } });
  const session = agent.startConversation({ seed: 3 });
  const history: Turn[] = [];
  for (const content of ["refund please", "order late", "thanks", "well"]) {
    history.push({ role: "user", content });
    const reply = await session.reply(history);
    if (reply.kind !== "reply") throw new Error("unexpected");
    history.push(reply.turn);
  }
  const [chain, ...others] = session.chains();
  expect(others).toEqual([]);
  // What it holds is what would be printed afresh, but for the end of a reply that was cut off.
  const printed = policy.tokenizer.segments(history).flatMap(({ tokens }) => [...tokens]);
  expect(printed.slice(0, chain!.tokens.length)).toEqual([...chain!.tokens]);
});
