import { describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { openPolicy } from "../policy/open-policy.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { tool } from "../tool/tool.ts";
import { readAgentFile } from "./agent-file.ts";
import type { AgentOptions } from "./agent-options.ts";
import { MultiTurnAgent } from "./multi-turn-agent.ts";
import { ToolAgent } from "./tool-agent.ts";

const call = (name: string, args: unknown) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;

const add = tool({
  name: "add",
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => a + b,
});

async function agentSaying(replies: readonly string[], options: Partial<AgentOptions> = {}) {
  const queue = [...replies];
  const policy = await openPolicy({ model: "stub://tools", stub: { replies: () => queue.shift()! } });
  return new MultiTurnAgent({ policy, tools: [add], sampling: { maxTokens: 400 }, ...options });
}
const ask = { role: "user", content: "How much is 1 + 2?" } as const;

describe("an agent with tools", () => {
  it("runs what the model calls, and lets it answer", async () => {
    const agent = await agentSaying([`Let me see.\n${call("add", { a: 1, b: 2 })}`, "It is 3."]);
    const { turn, turns } = await agent.respond([ask]);
    expect(turn.content).toBe("It is 3.");
    expect(turns).toMatchObject([
      { role: "assistant", content: "Let me see.", tool_calls: [{ id: "call00001", function: { name: "add" } }] },
      { role: "tool", content: "3", name: "add", tool_call_id: "call00001" },
      { role: "assistant", content: "It is 3." },
    ]);
  });

  it("tells the model what went wrong, of one named kind, and goes on", async () => {
    const agent = await agentSaying([
      call("subtract", {}),
      '<tool_call>{"name": "add", "arguments": {"a": 1</tool_call>',
      call("add", { a: "x", b: 2 }),
      "I cannot.",
    ]);
    const { turns } = await agent.respond([ask]);
    expect(turns.map(({ metadata }) => metadata?.toolFailure)).toEqual([
      ...[undefined, "unknown_tool", undefined, "invalid_json", undefined, "invalid_arguments", undefined],
    ]);
    expect(turns.at(-1)!.content).toBe("I cannot.");
    expect(turns[3]!.content).toContain("it is not one JSON object");
  });

  it("stops calling after as many rounds as it may", async () => {
    const execute = vi.fn(() => "again");
    const again = tool({ name: "again", execute });
    const agent = await agentSaying(Array(9).fill(call("again", {})), { tools: [again], maxToolSteps: 2 });
    const { turn, turns } = await agent.respond([ask]);
    expect(execute).toHaveBeenCalledTimes(2);
    expect(turns).toHaveLength(5);
    expect(turn.tool_calls).toHaveLength(1);
  });

  it("runs several calls of a reply, and gives each its result", async () => {
    const agent = await agentSaying([`${call("add", { a: 1, b: 2 })}\n${call("add", { a: 3, b: 4 })}`, "3 and 7."]);
    const { turns } = await agent.respond([ask]);
    expect(turns.slice(1, 3)).toMatchObject([
      { tool_call_id: "call00001", content: "3" },
      { tool_call_id: "call00002", content: "7" },
    ]);
  });

  it("streams words and no calls", async () => {
    const agent = await agentSaying([`One moment.\n${call("add", { a: 1, b: 2 })}`, "It is `3`."]);
    let text = "";
    for await (const piece of agent.stream([ask])) text += piece;
    expect(text).toBe("One moment.\nIt is `3`.");
  });

  it("streams no reasoning, of no reply of several", async () => {
    const replies = [`<think>add</think>One moment.\n${call("add", { a: 1, b: 2 })}`, "<think>easy</think>It is 3."];
    const agent = await agentSaying(replies, { reasoning: true });
    let text = "";
    for await (const piece of agent.stream([ask])) text += piece;
    expect(text).toBe("One moment.\nIt is 3.");
    const { turns } = await (await agentSaying(replies, { reasoning: true })).respond([ask]);
    expect(turns.map(({ reasoning }) => reasoning)).toEqual(["add", undefined, "easy"]);
  });

  it("takes no call in its reasoning for one that it makes", async () => {
    const replies = [`<think>${call("add", { a: 1, b: 2 })}</think>I know: 3.`];
    expect((await (await agentSaying(replies, { reasoning: true })).respond([ask])).turns).toHaveLength(1);
    let text = "";
    for await (const piece of (await agentSaying(replies, { reasoning: true })).stream([ask])) text += piece;
    expect(text).toBe("I know: 3.");
  });

  it("cuts a long result to its tokens, with a note", async () => {
    const long = tool({ name: "long", execute: () => "x".repeat(5000) });
    const agent = await agentSaying([call("long", {}), "Done."], { tools: [long], maxResultTokens: 100 });
    const { turns } = await agent.respond([ask]);
    expect(turns[1]!.content.length).toBeLessThanOrEqual(100);
    expect(turns[1]!.content).toMatch(/x\n\[cut: \d+ of 5000 characters are left out\]$/);
  });

  it("is stopped in the middle of a tool", async () => {
    const controller = new AbortController();
    const hang = tool({ name: "hang", execute: () => new Promise(() => setTimeout(() => controller.abort(), 5)) });
    const agent = await agentSaying([call("hang", {}), "Never."], { tools: [hang] });
    await expect(agent.respond([ask], { signal: controller.signal })).rejects.toMatchObject({ code: "ABORTED" });
  });

  it("asks before a tool that needs approval", async () => {
    const pay = tool({ name: "pay", needsApproval: true, execute: () => "paid" });
    const reply = async (approve?: () => boolean) => {
      const agent = await agentSaying([call("pay", {}), "Done."], { tools: [pay], ...(approve && { approve }) });
      return (await agent.respond([ask])).turns[1]!.content;
    };
    expect(await reply(() => true)).toBe("paid");
    expect(await reply()).toContain("denied");
  });

  it("says so where its tools fill the context", async () => {
    const many = Array.from({ length: 100 }, (_, i) =>
      tool({ name: `tool_${i}`, description: "Does much. ".repeat(200), execute: () => i }),
    );
    const agent = await agentSaying(["Hi."], { tools: many });
    await expect(agent.respond([ask])).rejects.toMatchObject({
      code: "CONTEXT_OVERFLOW",
      message: expect.stringMatching(/with the system prompt and 100 tools it takes \d+ tokens/),
      hint: "Shorten it, or give the agent fewer tools.",
    });
  });

  it("refuses a name that the model's format cannot write", async () => {
    const dashed = tool({ name: "look-up", execute: () => 1 });
    const agent = await agentSaying(["Hi."], { tools: [dashed], callFormat: "pythonic" });
    await expect(agent.respond([ask])).rejects.toThrow('cannot write calls to "look-up"');
  });
});

describe("a ToolAgent", () => {
  it("is the same agent, and wants a tool that it can run", () => {
    expect(new ToolAgent({ tools: [add] })).toBeInstanceOf(MultiTurnAgent);
    expect(() => new ToolAgent({ tools: [] })).toThrow("no tool that it could run");
  });

  it("keeps the definitions of its tools, and is not loaded without their code", async () => {
    const dir = temporaryFolder();
    await new ToolAgent({ tools: [add], policy: createTablePolicy() }).save(dir);
    const stored = await readAgentFile(dir);
    expect(stored).toMatchObject({ runs: ["add"], tools: [{ function: { name: "add" } }], maxToolSteps: 8 });
    const load = (options: AgentOptions) => () => new MultiTurnAgent({ ...stored, ...options });
    expect(load({})).toThrow(
      expect.objectContaining({ code: "TOOL_MISSING", message: expect.stringContaining('"add"') }),
    );
    expect(load({ tools: [add] })().options.runnable.has("add")).toBe(true);
  });

  it("is told apart from one whose tool does something else", () => {
    const other = tool({ name: "add", parameters: z.object({ a: z.number(), b: z.number() }), execute: () => 0 });
    const [a, b] = [add, other].map((one) => new ToolAgent({ tools: [one] }).describe());
    expect(a).not.toEqual(b);
    expect(new ToolAgent({ tools: [add] }).describe()).toEqual(a);
  });
});

describe("definitions without code", () => {
  const definition = { type: "function", function: { name: "add", parameters: { type: "object" } } } as const;

  it("are shown, and their calls are words as before", async () => {
    const text = call("add", { a: 1 });
    const { turn } = await (await agentSaying([text], { tools: [definition] })).respond([ask]);
    expect(turn).toMatchObject({ content: text });
    expect(turn.tool_calls).toBeUndefined();
  });

  it("are called where a format is named, for somebody else to answer", async () => {
    const agent = await agentSaying([`Wait.\n${call("add", { a: 1 })}`], { tools: [definition], callFormat: "hermes" });
    const { turn, turns } = await agent.respond([ask]);
    expect(turn).toMatchObject({ content: "Wait.", tool_calls: [{ function: { name: "add", arguments: '{"a":1}' } }] });
    expect(turns).toHaveLength(1);
  });
});
