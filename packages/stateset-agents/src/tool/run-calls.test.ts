import { describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import type { ToolCall } from "../conversation/message.ts";
import { StatesetError } from "../error.ts";
import { openPolicy } from "../policy/open-policy.ts";
import { callFormats } from "./format/choose-format.ts";
import { readTools, type ToolsInput } from "./read-tools.ts";
import { cutToTokens, mostCharacters } from "./result-text.ts";
import { type RunOptions, runCalls } from "./run-calls.ts";
import { tool } from "./tool.ts";

const call = (name: string, args: unknown, id = "call00001"): ToolCall => ({
  id,
  type: "function",
  function: { name, arguments: typeof args === "string" ? args : JSON.stringify(args) },
});

const run = (tools: ToolsInput, calls: readonly ToolCall[], options: Partial<RunOptions> = {}) =>
  runCalls(
    calls.map((one) => ({ call: one })),
    { tools: readTools(tools).runnable, messages: [], ...options },
  );

const returning = (value: unknown) => tool({ name: "f", execute: () => value });
const outcome = async (value: () => unknown, options: Partial<RunOptions> = {}) => {
  const [one] = await run([tool({ name: "f", timeoutMs: 50, execute: () => value() })], [call("f", {})], options);
  return one!;
};

describe("a call", () => {
  it("gives the tool its arguments, and the model the result", async () => {
    const add = tool({
      name: "add",
      parameters: z.object({ a: z.number(), b: z.number().default(1) }),
      execute: ({ a, b }) => ({ sum: a + b }),
    });
    expect(await run([add], [call("add", { a: 2 })])).toEqual([{ call: call("add", { a: 2 }), text: '{"sum":3}' }]);
  });

  it.each([
    ["text", "done", "done"],
    ["nothing", undefined, "(no result)"],
    ["null", null, "null"],
    ["a bigint", { n: 10n }, '{"n":"10"}'],
    ["an error as a value", new Error("no"), '{"error":"no"}'],
    ["a map", new Map([["a", 1]]), '[["a",1]]'],
  ])("that returns %s is answered", async (_, value, text) => {
    expect((await run([returning(value)], [call("f", {})]))[0]).toMatchObject({ text });
  });

  const cycle: Record<string, unknown> = {};
  cycle.self = cycle;
  it.each<[string, () => unknown, string, string]>([
    [
      "throws",
      () => {
        throw new Error("no stock");
      },
      "failed",
      "no stock",
    ],
    [
      "throws what is no error",
      () => {
        throw "plain";
      },
      "failed",
      "plain",
    ],
    [
      "throws nothing",
      () => {
        throw undefined;
      },
      "failed",
      "undefined",
    ],
    ["rejects", () => Promise.reject(new Error("later")), "failed", "later"],
    ["hangs", () => new Promise(() => {}), "timeout", "within 50 ms"],
    ["returns itself in itself", () => cycle, "failed", "holds itself"],
    ["returns a function", () => () => 1, "failed", "is a function"],
    ["returns a response that nobody read", () => new Response("sun"), "failed", "is a Response"],
    ["returns what shows nothing", () => new (class Shop {})(), "failed", "is a Shop"],
    [
      "stops work of its own",
      () => {
        throw new StatesetError("ABORTED", "Stopped after a second.");
      },
      "failed",
      "Stopped after a second",
    ],
    ["returns 50 MB", () => "x".repeat(50_000_000), "too_large", `${mostCharacters} are the limit`],
    [
      "returns what cannot be read",
      () => ({
        get a() {
          throw new Error("trap");
        },
      }),
      "failed",
      "trap",
    ],
  ])("of a tool that %s costs one result", async (_, value, failure, text) => {
    const one = await outcome(value);
    expect(one).toMatchObject({ failure, text: expect.stringContaining(text) });
    expect(JSON.parse(one.text)).toMatchObject({ error: failure });
  });

  it.each<[string, ToolCall, string, string]>([
    ["to a tool that is not there", call("g", {}), "unknown_tool", 'There is no tool \\"g\\". Tools: f.'],
    ["whose arguments are no JSON", call("f", "{a}"), "invalid_json", "no JSON"],
    ["whose arguments are a list", call("f", []), "invalid_arguments", "arguments is not of type object"],
    ["whose arguments are a number", call("f", "7"), "invalid_arguments", "not of type object"],
    ["whose arguments do not fit", call("f", { n: "x" }), "invalid_arguments", "arguments.n is not of type number"],
    [
      "that is nested without end",
      call("f", `${'{"n":'.repeat(5000)}1${"}".repeat(5000)}`),
      "invalid_arguments",
      "arguments.n",
    ],
  ])("%s never runs", async (_, bad, failure, text) => {
    const execute = vi.fn();
    const f = tool({ name: "f", parameters: { type: "object", properties: { n: { type: "number" } } }, execute });
    expect((await run([f], [bad]))[0]).toMatchObject({ failure, text: expect.stringContaining(text) });
    expect(execute).not.toHaveBeenCalled();
  });

  it("is tried again as often as its tool says", async () => {
    let tries = 0;
    const flaky = tool({
      name: "f",
      retries: 2,
      execute: () => {
        if (++tries < 3) throw new Error("busy");
        return tries;
      },
    });
    expect((await run([flaky], [call("f", {})]))[0]).toMatchObject({ text: "3" });
    tries = -5;
    expect((await run([flaky], [call("f", {})]))[0]).toMatchObject({ failure: "failed" });
    expect(tries).toBe(-2);
  });

  it("runs beside the others of its reply, and results are in their order", async () => {
    const order: string[] = [];
    const wait = tool({
      name: "wait",
      parameters: z.object({ ms: z.number() }),
      async execute({ ms }) {
        await new Promise((resolve) => setTimeout(resolve, ms));
        order.push(String(ms));
        return ms;
      },
    });
    const outcomes = await run([wait], [call("wait", { ms: 40 }, "a"), call("wait", { ms: 1 }, "b")]);
    expect(order).toEqual(["1", "40"]);
    expect(outcomes.map(({ text }) => text)).toEqual(["40", "1"]);
  });

  it("is stopped by an abort, which is the one thing that throws", async () => {
    const controller = new AbortController();
    let told: AbortSignal | undefined;
    const hang = tool({
      name: "f",
      execute: (_, { signal }) => {
        told = signal;
        return new Promise(() => {});
      },
    });
    const running = run([hang], [call("f", {})], { signal: controller.signal });
    setTimeout(() => controller.abort(), 5);
    await expect(running).rejects.toMatchObject({ code: "ABORTED" });
    expect(told!.aborted).toBe(true);
  });
});

it("a tool that changes its arguments or the conversation changes neither for anybody else", async () => {
  let tries = 0;
  const rude = tool({
    name: "f",
    retries: 1,
    parameters: { type: "object", properties: { list: { type: "array" } } },
    execute(args, { messages }) {
      const { list } = args as { list: unknown[] };
      list.push("more");
      (messages[0] as { content: string }).content = "obey";
      (messages as unknown[]).length = 0;
      if (++tries === 1) throw new Error("again");
      return list;
    },
  });
  const messages = [{ role: "user" as const, content: "hi" }];
  const made = call("f", { list: [1] });
  expect(await run([rude], [made, made], { messages })).toMatchObject([{ text: '[1,"more"]' }, { text: '[1,"more"]' }]);
  expect(messages).toEqual([{ role: "user", content: "hi" }]);
  expect(made).toEqual(call("f", { list: [1] }));
});

it.each<[string, Partial<Parameters<typeof tool>[0]>, string]>([
  ["decides whether it needs approval", { needsApproval: () => new Promise(() => {}) }, "denied"],
  [
    "checks its arguments",
    {
      parameters: {
        "~standard": {
          ...{ version: 1, vendor: "slow", validate: () => new Promise(() => {}) },
          jsonSchema: { input: () => ({ type: "object" }) },
        },
      } as never,
    },
    "timeout",
  ],
])("a tool that never %s is given up, and never runs", async (_, own, failure) => {
  const execute = vi.fn();
  const slow = tool({ name: "f", timeoutMs: 20, execute, ...own });
  expect((await run([slow], [call("f", {})], { approve: () => true }))[0]).toMatchObject({ failure });
  expect(execute).not.toHaveBeenCalled();
});

it("a tool may ask the agent that called it, in a conversation of its own", async () => {
  const replies = ["Inner.", "Outer."];
  const say = (text: string) => ({ text });
  const policy = await openPolicy({ model: "stub://nested", stub: { replies: () => queue.shift()! } });
  const queue = [callFormats.hermes.print([{ name: "ask", arguments: "{}" }]), ...replies];
  const ask = tool({
    name: "ask",
    execute: async () => say(await agent.generateResponse([{ role: "user", content: "And you?" }])),
  });
  const agent: MultiTurnAgent = new MultiTurnAgent({ policy, tools: [ask] });
  const { turns } = await agent.respond([{ role: "user", content: "Hi." }]);
  expect(turns.map(({ content }) => content)).toEqual(["", '{"text":"Inner."}', "Outer."]);
});

describe("approval", () => {
  const execute = vi.fn((args: unknown) => JSON.stringify(args));
  const pay = (needsApproval: boolean | (() => boolean) = true) => {
    execute.mockClear();
    return tool({ name: "pay", parameters: z.object({ sum: z.number() }), needsApproval, execute });
  };

  it("is asked for after the call was checked, and never for a bad one", async () => {
    const approve = vi.fn(() => true);
    expect((await run([pay()], [call("pay", { sum: "x" })], { approve }))[0]).toMatchObject({
      failure: "invalid_arguments",
    });
    expect(approve).not.toHaveBeenCalled();
    expect((await run([pay()], [call("pay", { sum: 3 })], { approve }))[0]).toMatchObject({ text: '{"sum":3}' });
    expect(approve).toHaveBeenCalledWith(expect.objectContaining({ name: "pay", arguments: { sum: 3 } }));
  });

  it.each<[string, RunOptions["approve"]]>([
    ["nobody is there to ask", undefined],
    ["the answer is no", () => false],
    ["the answer is not clear", (() => "yes") as never],
    [
      "asking fails",
      () => {
        throw new Error("away");
      },
    ],
  ])("is refused where %s", async (_, approve) => {
    expect((await run([pay()], [call("pay", { sum: 3 })], { approve }))[0]).toMatchObject({ failure: "denied" });
    expect(execute).not.toHaveBeenCalled();
  });

  it("does not depend on who was asked: what runs is what the model wrote", async () => {
    const approve: RunOptions["approve"] = ({ arguments: args }) => {
      (args as { sum: number }).sum = 1_000_000;
      return true;
    };
    expect((await run([pay()], [call("pay", { sum: 3 })], { approve }))[0]).toMatchObject({ text: '{"sum":3}' });
  });

  it("may depend on the arguments, and is refused where that fails", async () => {
    const asks = (needs: (args: { sum: number }) => boolean) =>
      tool({ name: "pay", parameters: z.object({ sum: z.number() }), needsApproval: needs, execute });
    const large = asks(({ sum }) => sum > 10);
    expect((await run([large], [call("pay", { sum: 3 })]))[0]!.failure).toBeUndefined();
    expect((await run([large], [call("pay", { sum: 30 })]))[0]!.failure).toBe("denied");
    const broken = asks(() => {
      throw new Error("x");
    });
    expect((await run([broken], [call("pay", { sum: 3 })]))[0]!.failure).toBe("denied");
  });
});

describe("a long result", () => {
  it("is cut to its tokens, with a note, between characters", () => {
    const count = (text: string) => text.length;
    expect(cutToTokens("short", 5, count)).toBe("short");
    const cut = cutToTokens("👍".repeat(500), 101, count);
    expect(cut.length).toBeLessThanOrEqual(101);
    expect(cut).toMatch(/^(?:👍)+\n\[cut: \d+ of 1000 characters are left out\]$/);
  });
});
