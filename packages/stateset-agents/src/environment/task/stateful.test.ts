import { describe, expect, it } from "vitest";
import type { Turn } from "../../conversation/trajectory.ts";
import { runGuarded } from "../guard.ts";
import { TaskEnvironment } from "../task-environment.ts";
import type { FinalTask } from "./final.ts";
import { call, cancel, play, type Shop, say, shop, state } from "./shop.cases.ts";
import type { TaskTool } from "./task-tool.ts";

describe("a task with a state", () => {
  it("is solved by its final state and what was said; the reward comes in the end", async () => {
    const {
      state: end,
      notes,
      rewards,
    } = await play(shop(), [
      call(["get_order", { order_id: "1" }]),
      call(["cancel_order", { order_id: "1" }]),
      say("Order 1 is canceled."),
    ]);
    expect(end).toMatchObject({ done: true, ended: "done", replies: 3 });
    expect(notes).toMatchObject({ success: true, progress: 1, state: { orders: { "1": { status: "cancelled" } } } });
    expect(rewards).toEqual([undefined, undefined, 1]);
    expect(end.turns.map(({ role, content }) => [role, content])).toEqual([
      ["user", "Cancel order 1."],
      ["assistant", ""],
      ["tool", '{"status":"open"}'],
      ["assistant", ""],
      ["tool", "cancelled"],
      ["assistant", "Order 1 is canceled."],
    ]);
  });

  it("has a hash of the state at every turn of its own, and a list of what wrote", async () => {
    const { state: end, notes } = await play(shop(), [
      call(["get_order", { order_id: "1" }]),
      call(["cancel_order", { order_id: "1" }]),
      say("Done."),
    ]);
    const hashes = end.turns.filter(({ role }) => role !== "assistant").map(({ metadata }) => metadata?.stateHash);
    expect(hashes[0]).toMatch(/^[0-9a-f]{16}$/);
    expect(hashes[1]).toBe(hashes[0]);
    expect(hashes[2]).not.toBe(hashes[0]);
    expect(notes.stateHash).toBe(hashes[2]);
    expect(notes.writes).toEqual([
      { turn: 3, tool: "cancel_order", arguments: { order_id: "1" }, before: hashes[0], after: hashes[2] },
    ]);
    expect(notes).toMatchObject({ success: false, progress: 2 / 3, why: 'it never said "cancelled" or "canceled"' });
  });

  it("takes no text that an agent writes for another state", async () => {
    type Notes = { notes: readonly string[] };
    const write: TaskTool<Notes> = { name: "write", run: (_, { notes }) => ({ state: { notes }, result: "written" }) };
    const tasks = [{ id: "a", prompt: "Write.", state: { notes: ["a", "b"] }, expect: { writes: [] } }];
    const environment = new TaskEnvironment<Notes>({ tasks, tools: [{ ...write, parameters: { type: "object" } }] });
    for (const notes of [["a;1:stringb"], ['a","b'], ["a,b"], ["b", "a"]]) {
      const { notes: end } = await play(environment, [call(["write", { notes }]), say("Written.")]);
      expect(end).toMatchObject({ success: false, state: { notes }, writes: [{ tool: "write" }] });
    }
  });

  it("shows its tools, or those it names, and knows no other", async () => {
    const environment = shop({ tasks: [{ ...cancel, expect: { writes: [] }, tools: ["get_order"] }] });
    const begun = await environment.reset(undefined, { seed: 0 });
    expect(environment.tools(begun)!.map((one) => one.function.name)).toEqual(["get_order"]);
    const { state: next } = await environment.step(begun, call(["cancel_order", { order_id: "1" }]));
    expect(next.turns.at(-1)).toMatchObject({ role: "tool", metadata: { toolFailure: "unknown_tool" } });
    expect(
      shop()
        .tools(await shop().reset())!
        .map((one) => one.function.name),
    ).toEqual(["get_order", "cancel_order"]);
  });

  it("runs the calls of a reply one after the other, each on the state the one before left", async () => {
    const count: TaskTool<{ n: number }> = {
      name: "add",
      run: ({ n }) => ({ state: { n: n + 1 }, result: n + 1 }),
    };
    const environment = new TaskEnvironment({
      tasks: [{ id: "a", goal: "Count.", state: { n: 0 } }],
      tools: [count],
      check: () => true,
    });
    const { state: end, notes } = await play(environment, [call(["add", {}], ["add", {}], ["add", {}])]);
    expect(end.turns.slice(2).map(({ content }) => content)).toEqual(["1", "2", "3"]);
    expect(notes.writes).toHaveLength(3);
  });

  it("plays 200 episodes side by side as it plays each alone, and changes no state it was given", async () => {
    const environment = shop();
    const replies = (i: number) =>
      [
        ...(i % 2 === 0 ? [call(["cancel_order", { order_id: "1" }])] : []),
        ...(i % 3 === 0 ? [call(["cancel_order", { order_id: "2" }])] : []),
        say("It is cancelled."),
      ] as Turn[];
    const ends = await Promise.all(Array.from({ length: 200 }, (_, i) => play(environment, replies(i))));
    for (const [i, { notes }] of ends.entries()) {
      expect(notes.success).toBe(i % 2 === 0 && i % 3 !== 0);
      expect(notes.state.orders["2"]!.status).toBe(i % 3 === 0 ? "cancelled" : "shipped");
    }
    expect(state.orders["1"]!.status).toBe("open");
    const begun = await environment.reset(undefined, { seed: 0 });
    const copy = structuredClone(begun);
    await environment.step(begun, call(["cancel_order", { order_id: "1" }]));
    expect(begun).toEqual(copy);
  });

  it("puts the policy before the task's context, once", () => {
    const environment = shop({ policy: "Never refund.", tasks: [{ ...cancel, context: "It is Monday." }] });
    expect(environment.scenarios[0]!.context).toBe("Never refund.\n\nIt is Monday.");
    const again = shop({ policy: "Never refund.", tasks: environment.scenarios as never });
    expect(again.scenarios).toEqual(environment.scenarios);
    expect(shop({ policy: "Never refund." }).scenarios[0]!.context).toBe("Never refund.");
  });

  it("says its turns in order, and hangs up after the last", async () => {
    const environment = shop({
      tasks: [{ id: "a", state, turns: ["Hi.", "Cancel 1.", "Bye."], expect: { said: ["d"] } }],
    });
    const { state: end } = await play(environment, [
      say("a"),
      call(["get_order", { order_id: "1" }]),
      say("b"),
      say("c"),
      say("d"),
    ]);
    const said = end.turns.filter(({ role }) => role === "user").map(({ content }) => content);
    expect(said).toEqual(["Hi.", "Cancel 1.", "Bye."]);
    expect(end).toMatchObject({ done: true, replies: 4, metadata: { success: false } });
    const begun = shop({
      tasks: [
        { id: "a", state, messages: [{ role: "user", content: "Hi." }], turns: ["More."], expect: { writes: [] } },
      ],
    });
    const { state: other } = await play(begun, [say("a"), say("b")]);
    expect(other.turns.map(({ content }) => content)).toEqual(["Hi.", "a", "More.", "b"]);
    expect(other.turns[0]).toMatchObject({ given: true, metadata: { stateHash: expect.any(String) } });
  });

  it("ends after maxTurns replies, and is judged as it stands then", async () => {
    const environment = shop({ maxTurns: 2 });
    const look = () => call(["get_order", { order_id: "1" }]);
    expect((await play(environment, [look(), look(), look()])).state).toMatchObject({ ended: "max-turns", replies: 2 });
    const { state: end } = await play(shop({ maxTurns: 2, check: ({ ended }) => ended === "done" }), [
      call(["cancel_order", { order_id: "1" }]),
      { ...look(), content: "cancelled" },
    ]);
    expect(end.metadata).toMatchObject({ success: false });
  });

  it("is checked by code too: both must hold, and the check sees everything", async () => {
    let seen: FinalTask<Shop> | undefined;
    const check = (final: FinalTask<Shop>) => {
      seen = final;
      return { success: false, progress: 0.5, why: "too slow" };
    };
    const replies = [call(["get_order", "{"], ["cancel_order", { order_id: "1" }]), say("cancelled")];
    const { notes } = await play(shop({ check }), replies);
    expect(notes).toMatchObject({ success: false, progress: 0.5, why: "too slow" });
    expect(seen!.calls).toMatchObject([
      { turn: 1, name: "get_order", arguments: undefined, failure: "invalid_json" },
      { turn: 1, name: "cancel_order", arguments: { order_id: "1" } },
    ]);
    expect(seen).toMatchObject({ said: ["cancelled"], initial: state, ended: "done", writes: [{ turn: 1 }] });
  });

  it("leaves calls alone that the agent answers itself", async () => {
    const reply = call(["own_tool", {}], ["get_order", { order_id: "1" }]);
    reply.metadata = { callsOfAgent: [reply.tool_calls![0]!.id] };
    const { state: end } = await play(shop(), [reply]);
    expect(end.turns.slice(2).map(({ name }) => name)).toEqual(["get_order"]);
  });
});

describe("what goes wrong in a tool", () => {
  const broken = (run: TaskTool<Shop>["run"]) =>
    shop({ tools: [{ name: "broken", run }], tasks: [{ ...cancel, expect: { writes: [] } }] });

  it.each<[string, string, TaskTool<Shop>["run"], string]>([
    [
      "throws",
      "failed",
      () => {
        throw new Error("no power");
      },
      "no power",
    ],
    [
      "throws what is no error",
      "failed",
      () => {
        throw "down";
      },
      "down",
    ],
    [
      "changes the state it was given",
      "failed",
      (given) => {
        given.orders["1"]!.status = "x";
        return { result: 1 };
      },
      "changes the state it is given",
    ],
    [
      "adds to the state it was given",
      "failed",
      (given) => {
        given.orders["9"] = { status: "x" };
        return { result: 1 };
      },
      "it must return another",
    ],
    ["returns nothing", "failed", () => undefined as never, "returned no { result }"],
    [
      "calls the state something else",
      "failed",
      () => ({ result: 1, newState: { orders: {} } }) as never,
      'returned \\"newState\\" beside result',
    ],
    [
      "returns a state that is not plain",
      "failed",
      () => ({ state: { orders: new Map() } as never, result: 1 }),
      "orders is a Map",
    ],
    ["returns a state that holds NaN", "failed", () => ({ state: { n: Number.NaN } as never, result: 1 }), "NaN"],
    [
      "returns a result that holds itself",
      "failed",
      () => {
        const a: unknown[] = [];
        a.push(a);
        return { state: { orders: {} }, result: a };
      },
      "holds itself",
    ],
    ["returns 50 MB", "too_large", () => ({ state: { orders: {} }, result: "x".repeat(50 << 20) }), "characters"],
  ])("that %s is a counted result, and the state stays", async (_, kind, run, message) => {
    const { state: end, notes } = await play(broken(run), [call(["broken", {}])]);
    expect(end.turns.at(-1)).toMatchObject({
      role: "tool",
      metadata: { toolFailure: kind, stateHash: notes.stateHash },
    });
    expect(end.turns.at(-1)!.content).toContain(message);
    expect(notes.state).toEqual(state);
    expect(notes.writes).toEqual([]);
  });

  it("or in a call is of the same kinds as an agent's", async () => {
    const unreadable = call(["get_order", "{"]);
    unreadable.metadata = { unreadableCalls: { [unreadable.tool_calls![0]!.id]: "cut" } };
    const { state: end } = await play(shop(), [
      unreadable,
      call(
        ["get_ordr", {}],
        ["get_order", "{"],
        ["get_order", {}],
        ["get_order", [1]],
        ["get_order", { order_id: "1" }],
      ),
    ]);
    const kinds = end.turns.filter(({ role }) => role === "tool").map(({ metadata }) => metadata?.toolFailure);
    expect(kinds).toEqual([
      "invalid_json",
      "unknown_tool",
      "invalid_json",
      "invalid_arguments",
      "invalid_arguments",
      undefined,
    ]);
  });

  it.each<[string, unknown, string]>([
    ["nothing", undefined, "returned undefined"],
    ["null", null, "returned null"],
    ["words", "yes", 'returned "yes"'],
    ["a misspelt success", { sucess: true }, "success"],
    ["a success in words", { success: "no" }, "success"],
    ["a progress in words", { success: false, progress: "0.5" }, "progress"],
    ["a key that is none", { success: true, reason: "x" }, 'Unknown option "reason"'],
  ])("and a check that returns %s is an error, not a task that was or was not done", async (_, result, message) => {
    const environment = shop({ tasks: [{ ...cancel, expect: { writes: [] } }], check: () => result as never });
    const { code, message: said } = await play(environment, [say("Hi")]).then(
      () => ({ code: "none", message: "" }),
      (error: { code: string; message: string }) => error,
    );
    expect([code, said]).toEqual(["CHECK_FAILED", expect.stringContaining(message)]);
    expect(said).toContain('check of task "cancel"');
  });

  it("and a state of null stays null", async () => {
    const seen: unknown[] = [];
    const look: TaskTool = { name: "look", run: (given) => ({ result: seen.push(given) }) };
    const tasks = [{ id: "a", prompt: "Hi.", state: null, expect: { writes: [] } }];
    await play(new TaskEnvironment({ tasks, tools: [look] }), [call(["look", {}])]);
    expect(seen).toEqual([null]);
  });

  it("and a check that throws fails the conversation by name", async () => {
    const environment = shop({
      tasks: [{ ...cancel, expect: { writes: [] } }],
      check: () => {
        throw new Error("oops");
      },
    });
    const { failures } = await runGuarded(
      environment,
      async (guarded) => guarded.step(await guarded.reset(environment.scenarios[0]), say("Hi")),
      { timeoutMs: 1000, scenarioId: "cancel", trajectoryId: "t", retry: () => false },
    );
    expect(failures).toMatchObject([
      { kind: "threw", during: "step", message: expect.stringContaining('The check of task "cancel" threw: oops') },
    ]);
  });
});
