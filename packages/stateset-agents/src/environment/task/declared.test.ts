import { describe, expect, expectTypeOf, it } from "vitest";
import type { Turn } from "../../conversation/trajectory.ts";
import { TaskEnvironment } from "../task-environment.ts";
import { call, cancel, cancelOrder, getOrder, play, type Shop, say, shop, state } from "./shop.cases.ts";
import type { StatefulTaskOptions } from "./stateful.ts";
import type { TaskTool } from "./task-tool.ts";

describe("what is declared", () => {
  const judged = async (expectation: object, replies: readonly Turn[]) => {
    const { notes } = await play(shop({ tasks: [{ id: "a", prompt: "Hi.", state, ...expectation }] }), replies);
    return [notes.success, notes.progress, notes.why];
  };
  const write = (order_id: string) => call(["cancel_order", { order_id }]);

  it("earns nothing by words alone: they count once the deeds are done", async () => {
    const wanted = { expect: { calls: [{ tool: "get_order" }], said: ["open"] } };
    expect(await judged(wanted, [say("It is open.")])).toEqual([false, 0, "it never called get_order"]);
    expect(await judged(wanted, [call(["get_order", { order_id: "1" }]), say("It is open.")])).toEqual([
      true,
      1,
      undefined,
    ]);
    expect(await judged(wanted, [call(["get_order", {}]), say("It is open.")])).toEqual([
      false,
      0,
      "it never called get_order",
    ]);
  });

  it("is lost by any write that was not expected, also where the right one was done", async () => {
    const wanted = { expect: { writes: [{ tool: "cancel_order", arguments: { order_id: "1" } }] } };
    expect(await judged(wanted, [write("1"), say("x")])).toEqual([true, 1, undefined]);
    expect(await judged(wanted, [write("1"), write("2"), say("x")])).toMatchObject([
      false,
      0,
      expect.stringContaining('"2"'),
    ]);
    expect(await judged({ expect: { writes: [] } }, [write("2"), say("x")])).toMatchObject([
      false,
      0,
      expect.any(String),
    ]);
  });

  it("forbids calls, also those that fail, and words, as whole words", async () => {
    const forbid = { calls: [{ tool: "cancel_order" }], said: [["refunded", "open"]] };
    expect(await judged({ forbid }, [call(["cancel_order", {}]), say("x")])).toEqual([
      false,
      0,
      "it called cancel_order",
    ]);
    expect(await judged({ forbid }, [say("It is OPEN.")])).toEqual([false, 0, 'it said "refunded" or "open"']);
    expect(await judged({ forbid }, [say("It is opened.")])).toEqual([true, 1, undefined]);
  });

  it("tells calls of one id in two replies apart", async () => {
    const again = (turn: Turn): Turn => ({ ...turn, tool_calls: turn.tool_calls!.map((one) => ({ ...one, id: "0" })) });
    const task = { ...cancel, expect: { calls: [{ tool: "get_order" }, { tool: "cancel_order" }] } };
    const { notes } = await play(shop({ tasks: [task] }), [
      again(call(["get_order", { order_id: 1 }])),
      again(call(["cancel_order", { order_id: "1" }])),
      say("Done."),
    ]);
    expect(notes).toMatchObject({ success: false, progress: 0.5 });
  });

  it("finds a mark that stands behind a word", async () => {
    expect(await judged({ expect: { said: ["?"] } }, [say("Which one?")])).toEqual([true, 1, undefined]);
    expect(await judged({ expect: { said: ["?"] } }, [say("This one.")])).toMatchObject([false, 0, expect.any(String)]);
  });

  it("compares parts of objects, and lists whole", async () => {
    const set: TaskTool = {
      name: "set",
      run: (_, args) => ({ state: args, result: "ok" }),
      parameters: { type: "object" },
    };
    const met = async (wanted: unknown, value: unknown) => {
      const environment = new TaskEnvironment({
        tasks: [{ id: "a", prompt: "Hi.", expect: { state: wanted } }],
        tools: [set],
      });
      return (await play(environment, [call(["set", value]), say("x")])).notes.success;
    };
    expect(await met({ a: { b: 1 } }, { a: { b: 1, c: 2 }, d: 3 })).toBe(true);
    expect(await met({ a: { b: 1 } }, { a: { b: 2 } })).toBe(false);
    expect(await met({ list: [1] }, { list: [1, 2] })).toBe(false);
    expect(await met({ list: [{ x: 1 }] }, { list: [{ x: 1 }] })).toBe(true);
    expect(await met({ constructor: {} }, {})).toBe(false);
  });
});

describe("bad input", () => {
  const tasks = [cancel];
  it.each<[string, object, string]>([
    ["no tasks", { tasks: [] }, "got no tasks"],
    ["two tools of one name", { tools: [getOrder, getOrder] }, 'Two tools of TaskEnvironment are called "get_order"'],
    ["a name no format can write", { tools: [{ ...getOrder, name: "get order" }] }, "letters, digits"],
    ["a tool without code", { tools: [{ name: "x" }] }, "tools[0].run: a function was expected"],
    ["a misspelt option", { polcy: "x" }, 'Did you mean "policy"?'],
    ["a misspelt key of a task", { tasks: [{ ...cancel, expct: {} }] }, 'Did you mean "expect"?'],
    [
      "a misspelt tool",
      { tasks: [{ ...cancel, expect: { calls: [{ tool: "get_ordr" }] } }] },
      'names the tool "get_ordr", which there is not. Did you mean "get_order"?',
    ],
    ["a task without any check", { tasks: [{ id: "a", goal: "x" }] }, "says nothing of what is right"],
    ...[{ expect: {} }, { forbid: {} }, { expect: { said: [], calls: [] } }, { expect: { state: undefined } }].map(
      (empty): [string, object, string] => [
        `a task that expects nothing, ${JSON.stringify(empty)},`,
        { tasks: [{ id: "a", goal: "x", ...empty }] },
        "says nothing of what is right",
      ],
    ),
    [
      "a misspelt argument",
      { tasks: [{ ...cancel, expect: { writes: [{ tool: "cancel_order", arguments: { orderid: "1" } }] } }] },
      'names the argument "orderid", which "cancel_order" does not take. Did you mean "order_id"?',
    ],
    [
      "an argument of another type than the tool takes",
      { tasks: [{ ...cancel, expect: { writes: [{ tool: "cancel_order", arguments: { order_id: 1 } }] } }] },
      'expects a call of "cancel_order" that would fail: arguments.order_id is not of type string',
    ],
    [
      "a call that is expected of a tool that is not shown",
      { tasks: [{ ...cancel, tools: ["get_order"], expect: { calls: [{ tool: "cancel_order" }] } }] },
      'expects a call of "cancel_order", which it does not show',
    ],
    ["words that are none", { tasks: [{ ...cancel, expect: { said: [" "] } }] }, "an empty text"],
    ["a task without words", { tasks: [{ id: "a", expect: { writes: [] } }] }, "has no user turn"],
    [
      "a state that is not plain",
      { tasks: [{ ...cancel, state: { at: new Date(0) } }] },
      "state.at is a Date, which JSON has no form for",
    ],
    [
      "a state that holds itself",
      {
        tasks: [
          {
            ...cancel,
            state: (() => {
              const a: Record<string, unknown> = {};
              a.a = a;
              return a;
            })(),
          },
        ],
      },
      "holds itself",
    ],
    ["two tasks of one id", { tasks: [cancel, cancel] }, 'has the id "cancel"'],
    ["a user that is none", { user: {} }, "a user was expected"],
    [
      "a user beside turns",
      { user: { begin: () => "", reply: () => undefined }, tasks: [{ ...cancel, turns: ["x"] }] },
      "has `turns`, and the environment has a user",
    ],
  ])("%s is refused by name", (_, options, message) => {
    const make = () =>
      new TaskEnvironment({ tasks, tools: [getOrder, cancelOrder], ...options } as StatefulTaskOptions);
    expect(make).toThrow(message);
  });

  it("but not parts of arguments that fit, nor calls that are forbidden because they fail", () => {
    const address = { type: "object", properties: { city: { type: "string" } }, required: ["city", "street"] };
    const properties = { id: { type: "string" }, address, required: { type: "boolean" } };
    const parameters = { type: "object", properties, required: ["id"] };
    const move: TaskTool = { name: "move", parameters, run: () => ({ result: "ok" }) };
    const make = (expect: Record<string, unknown>[], forbid: Record<string, unknown>[] = []) => {
      const calls = (given: Record<string, unknown>[]) => ({
        calls: given.map((one) => ({ tool: "move", arguments: one })),
      });
      return new TaskEnvironment({
        tasks: [{ id: "a", goal: "x", expect: calls(expect), forbid: calls(forbid) }],
        tools: [move],
      });
    };
    expect(make([{ address: { city: "Rome" } }, {}, { required: true }], [{ id: 7 }]).scenarios).toHaveLength(1);
    expect(() => make([{ address: { city: 7 } }])).toThrow("arguments.address.city is not of type string");
    expect(() => make([{ address: "Rome" }])).toThrow("arguments.address is not of type object");
    expect(() => make([{ required: "yes" }])).toThrow("arguments.required is not of type boolean");
  });

  it("and the types tell the two forms apart", () => {
    new TaskEnvironment({
      tasks: [{ id: "a", goal: "x" }],
      check: (reply) => {
        expectTypeOf(reply).toEqualTypeOf<Turn>();
        return true;
      },
    });
    new TaskEnvironment<Shop>({
      tasks: [{ id: "a", goal: "x", state }],
      tools: [],
      check: (final) => {
        expectTypeOf(final.state).toEqualTypeOf<Shop>();
        return true;
      },
    });
  });
});
