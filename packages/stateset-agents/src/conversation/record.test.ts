import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { readConversations, writeChats } from "./jsonl.ts";
import { type ConversationRecord, toConversationRecord } from "./record.ts";
import type { Trajectory, Turn } from "./trajectory.ts";
import { validateMessages } from "./validate-messages.ts";

const dir = mkdtempSync(join(tmpdir(), "record-"));
afterAll(() => rmSync(dir, { recursive: true }));

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

const all = async (path: string) => {
  const records: ConversationRecord[] = [];
  for await (const record of readConversations(path)) records.push(record);
  return records;
};

describe("the record of a conversation", () => {
  it("holds messages that any OpenAI tool reads, and says when a stub made it up", () => {
    const record = toConversationRecord(trajectory);
    expect(record.messages).toEqual(validateMessages(record.messages));
    expect(record.messages).toEqual([
      { role: "user", content: "Hi" },
      { role: "assistant", content: "Hello" },
    ]);
    expect(record).toMatchObject({
      id: "t1",
      scenarioId: "refund",
      reward: { score: 0.75, breakdown: { polite: 1 } },
      stub: true,
    });
    expect(toConversationRecord({ ...trajectory, stub: false })).not.toHaveProperty("stub");
  });

  it("keeps what is known of single turns beside them, the sampled text only where it says more", () => {
    const said = (turn: Omit<Turn, "role">) =>
      toConversationRecord({ ...trajectory, turns: [{ role: "assistant", ...turn }] }).turns![0]!.sampled;
    expect(toConversationRecord(trajectory).turns).toEqual({
      0: { metadata: { typed: true } },
      1: { reward: 0.5, sampled: { finishReason: "stop" } },
    });
    const text = "Hello<end>";
    expect(said({ content: "[removed]", sampled: { text, finishReason: "stop" } })).toMatchObject({ text });
    expect(said({ content: "Hello", reasoning: "hm", sampled: { text, finishReason: "stop" } })).toMatchObject({
      text,
    });
    expect(said({ content: "Hel", sampled: { text: "Hel", finishReason: "length" } })).toEqual({
      finishReason: "length",
    });
  });

  it("says what the policy saw beside the messages, and a prompt in full only where it was another", async () => {
    const policy = createTablePolicy();
    const tools = [{ type: "function" as const, function: { name: "find" } }];
    const agent = new MultiTurnAgent({ policy, systemPrompt: "help", sampling: { maxTokens: 4 }, tools });
    await agent.initialize();
    const session = agent.startConversation({});
    const turns: Turn[] = [{ role: "user", content: "order" }];
    for (const next of ["late", undefined]) {
      const reply = await session.reply(turns, { seed: 1 });
      if (reply.kind !== "reply") throw new Error(reply.kind);
      turns.push(reply.turn);
      if (next) turns.push({ role: "user", content: next });
    }
    const plain = { ...trajectory, turns, chains: session.chains() };
    const record = toConversationRecord(plain);
    expect(record).toMatchObject({ system: "help", tools });
    for (const chain of record.chains) expect(chain).not.toHaveProperty("prompt");
    expect(record.chains[0]).toMatchObject({ started: "first-prompt", versions: { 1: policy.version } });
    // As a hook or a context window would have it.
    const first = plain.chains[0]!;
    const prompt = { messages: [{ role: "user" as const, content: "cut" }] };
    const { chains } = toConversationRecord({ ...plain, chains: [first, { ...first, prompt }] });
    expect(chains[1]).toMatchObject({ prompt: prompt.messages, tools: [] });
  });

  it("takes of metadata what JSON can hold", () => {
    const circle: Record<string, unknown> = { fine: 1 };
    circle.self = circle;
    const metadata = { orders: [{ id: 7 }], when: new Date(), call: () => 1, rate: Number.NaN, circle, none: null };
    expect(toConversationRecord({ ...trajectory, metadata }).metadata).toEqual({
      orders: [{ id: 7 }],
      circle: { fine: 1 },
      none: null,
    });
    expect(toConversationRecord({ ...trajectory, metadata: { call: () => 1 } })).not.toHaveProperty("metadata");
  });

  it("comes back from a file as it was written", async () => {
    const path = join(dir, "records.jsonl");
    const failure = { kind: "threw", during: "step", scenarioId: "refund", trajectoryId: "t2", message: "no" } as const;
    const { reward: _, ...unrewarded } = trajectory;
    const records = [
      toConversationRecord(trajectory, { group: "g", step: 3 }),
      toConversationRecord({ ...unrewarded, id: "t2", ended: "failed", failure }, { leftOut: "lost" }),
    ];
    await writeChats(path, records);
    expect(await all(path)).toEqual(records);
  });

  it("is made of lines of before this format, and of any chat", async () => {
    const path = join(dir, "old.jsonl");
    const [user, assistant] = trajectory.turns;
    const chat = {
      id: "a",
      messages: [{ role: "user", content: "Hi" }],
      reward: 0.5,
      breakdown: { b: 1 },
      ended: "done",
    };
    const run = { id: "b", group: "g", step: 1, messages: [user, assistant], reward: { score: 1, breakdown: {} } };
    const lines = [chat, run, { messages: [] }].map((line) => JSON.stringify(line));
    writeFileSync(path, lines.join("\n"));
    const [first, second, third] = await all(path);
    expect(first).toMatchObject({ id: "a", reward: { score: 0.5, breakdown: { b: 1 } }, chains: [] });
    expect(first).not.toHaveProperty("breakdown");
    expect(second).toMatchObject({
      messages: [
        { role: "user", content: "Hi" },
        { role: "assistant", content: "Hello" },
      ],
      turns: { 0: { metadata: { typed: true } }, 1: { reward: 0.5, sampled: { finishReason: "stop" } } },
    });
    expect(third).toEqual({ id: "3", messages: [], chains: [] });
  });

  it.each([null, {}, [null], [{ length: 2 }], [{ length: "2", learnLength: 1 }]])(
    "has chains or none, and names the line that has something else: %j",
    async (chains) => {
      const path = join(dir, "chains.jsonl");
      const good = { messages: [], chains: [{ length: 2, learnLength: 1 }] };
      writeFileSync(path, [good, { ...good, chains }].map((line) => JSON.stringify(line)).join("\n"));
      await expect(all(path)).rejects.toMatchObject({
        code: "INVALID_DATA",
        message: expect.stringMatching(/chains\.jsonl, line 2: "chains" is no list of chains/),
      });
    },
  );
});
