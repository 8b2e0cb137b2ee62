import { describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../../agent/multi-turn-agent.ts";
import { takeTools } from "./take-tools.ts";

const options = { prefix: "", timeoutMs: 1000, retries: 0, needsApproval: false, redact: (text: string) => text };
const take = (listed: readonly unknown[]) =>
  takeTools(listed, options as Parameters<typeof takeTools>[1], async () => ({
    content: [{ type: "text", text: "ok" }],
    structuredContent: { a: { a: { a: {} } } },
  }));

const twice = (to: string) => ({ allOf: [{ $ref: to }, { $ref: to }] });
const doubling = Object.fromEntries(
  Array.from({ length: 40 }, (_, i) => [`d${i}`, i < 39 ? twice(`#/$defs/d${i + 1}`) : {}]),
);
const hostile: Record<string, Record<string, unknown>> = {
  loop: { $ref: "#" },
  ring: { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } } },
  bomb: { type: "object", ...twice("#/$defs/d0"), $defs: doubling },
  "10 MB": { type: "object", description: "x".repeat(10 << 20) },
};

describe("a server's schemas", () => {
  it.each(Object.entries(hostile))("%s, of arguments or of results, cost the tool and nothing else", (_, schema) => {
    const fine = { type: "object" };
    const { tools, leftOut } = take([
      { name: "in", inputSchema: schema },
      { name: "out", inputSchema: fine, outputSchema: schema },
      { name: "fine", inputSchema: fine },
    ]);
    expect(leftOut.map(({ name }) => name)).toEqual(["in", "out"]);
    expect([...tools.keys()]).toEqual(["fine"]);
  });

  it("may have so many characters together, and the tools after that are left out", () => {
    const inputSchema = { type: "object", description: "x".repeat(200_000) };
    const { tools, leftOut } = take(Array.from({ length: 20 }, (_, i) => ({ name: `t${i}`, inputSchema })));
    expect(tools.size).toBe(10);
    expect(leftOut).toHaveLength(10);
    expect(leftOut[0]!.problem).toContain("have more than 2097152 characters");
  });

  it("whose patterns would backtrack for ever answer at once, also held while sampling", async () => {
    const inputSchema = {
      type: "object",
      properties: { a: { type: "string", pattern: "^(a+)+$" } },
      required: ["a"],
    };
    const { tools } = take([{ name: "slow", inputSchema }]);
    expect(await tools.get("slow")!.check({ a: `${"a".repeat(5000)}!` })).toMatchObject({ ok: false });
    const agent = new MultiTurnAgent({ tools: [...tools.values()], constrain: true, threads: 1 });
    await agent.initialize();
    expect(() => agent.startConversation()).not.toThrow();
    const bomb = { type: "object", properties: { a: { $ref: "#/$defs/d0" } }, required: ["a"], $defs: doubling };
    const held = new MultiTurnAgent({
      ...{ policy: agent.policy, constrain: true },
      tools: [...take([{ name: "bomb", inputSchema: bomb }]).tools.values()],
    });
    expect(() => held.startConversation()).toThrow(/"bomb"|too large/);
    await agent.close();
  });
});
