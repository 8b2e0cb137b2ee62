import { describe, expect, it } from "vitest";
import type { Turn } from "../conversation/trajectory.ts";
import { Environment, type EnvironmentState, type StepResult } from "./environment.ts";
import { runGuarded } from "./guard.ts";
import type { Scenario } from "./scenario.ts";

type Behaviour = "fine" | "throws" | "hangs";

class Flaky extends Environment {
  readonly scenarios: Scenario[] = [{ id: "s" }];
  readonly behaviours: Behaviour[];
  freshCalls = 0;
  sawAbort = false;
  constructor(...behaviours: Behaviour[]) {
    super();
    this.behaviours = behaviours;
  }
  async reset(scenario = this.scenarios[0]!): Promise<EnvironmentState> {
    return { scenario, turns: [{ role: "user", content: "hello" }], replies: 0, seed: 0, done: false, metadata: {} };
  }
  step(state: EnvironmentState, action: Turn, options?: { signal?: AbortSignal }): Promise<StepResult> {
    const behaviour = this.behaviours.shift() ?? "fine";
    if (behaviour === "throws") throw new Error("socket closed");
    if (behaviour === "hangs") {
      return new Promise((_, reject) => {
        options?.signal?.addEventListener("abort", () => {
          this.sawAbort = true;
          reject(new Error("late"));
        });
      });
    }
    return Promise.resolve({ state: { ...state, turns: [action], done: true }, done: true });
  }
  override fresh() {
    this.freshCalls++;
    return this;
  }
}

const action: Turn = { role: "assistant", content: "hi" };
const play = (environment: Flaky, signal?: AbortSignal) =>
  runGuarded(
    environment,
    async (guarded, attempt) => {
      const state = await guarded.reset(undefined, { seed: 1 });
      return { attempt, result: await guarded.step(state, action) };
    },
    { timeoutMs: 20, signal, scenarioId: "s", trajectoryId: "t" },
  );

describe("runGuarded", () => {
  it("passes a healthy episode through", async () => {
    const environment = new Flaky();
    const { value, failures } = await play(environment);
    expect(value?.attempt).toBe(0);
    expect(value?.result.state.turns).toEqual([action]);
    expect(failures).toEqual([]);
    expect(environment.freshCalls).toBe(0);
  });

  it.each<[string, unknown, string]>([
    ["nothing", undefined, "it returned no { state, done }"],
    ["no state", { done: true }, "it returned no state"],
    ["a state without turns", { state: { turns: [] }, done: true }, "a state without turns"],
    ["no done", { state: { turns: [action] } }, "`done` that is neither true nor false"],
  ])("takes a step that returns %s for one that failed", async (_, result, message) => {
    class Careless extends Flaky {
      override step() {
        return Promise.resolve(result as StepResult);
      }
    }
    const { value, failures } = await play(new Careless());
    expect(value).toBeUndefined();
    expect(failures[0]).toMatchObject({ kind: "threw", during: "step", message: expect.stringContaining(message) });
  });

  it("refuses two tools of one name", async () => {
    class Double extends Flaky {
      override tools() {
        const tool = { type: "function" as const, function: { name: "look" } };
        return [tool, tool];
      }
    }
    const { failures } = await runGuarded(new Double(), async (guarded) => guarded.tools(await guarded.reset()), {
      timeoutMs: 1000,
      scenarioId: "s",
      trajectoryId: "t",
    });
    expect(failures[0]).toMatchObject({ during: "reset", message: 'tools(): two are called "look"' });
  });

  it("begins anew with a fresh environment after a throw, and says so", async () => {
    const environment = new Flaky("throws");
    const { value, failures } = await play(environment);
    expect(value?.attempt).toBe(1);
    expect(environment.freshCalls).toBe(1);
    const ids = { scenarioId: "s", trajectoryId: "t" };
    expect(failures).toEqual([{ kind: "threw", during: "step", ...ids, message: "socket closed" }]);
  });

  it("cuts off a hanging step, tells it to stop, and begins anew", async () => {
    const environment = new Flaky("hangs");
    const { value, failures } = await play(environment);
    expect(value?.attempt).toBe(1);
    expect(failures[0]).toMatchObject({ kind: "timeout", during: "step" });
    expect(environment.sawAbort).toBe(true);
  });

  it("gives up without a value when the retry fails too", async () => {
    const { value, failures } = await play(new Flaky("throws", "hangs"));
    expect(value).toBeUndefined();
    expect(failures.map((failure) => failure.kind)).toEqual(["threw", "timeout"]);
  });

  it.each([
    [undefined, "no state"],
    [{ turns: [] }, "a state without turns"],
    [{ turns: [{ role: "user", content: 5 }] }, "a turn that is no message"],
    [{ turns: [{ role: "user", content: "a" }], ended: "banana" }, "neither"],
  ])("takes nonsense for a failure: %o", async (state, what) => {
    const environment = new Flaky();
    environment.reset = async () => state as never;
    const { value, failures } = await play(environment);
    expect(value).toBeUndefined();
    expect(failures).toHaveLength(2);
    expect(failures[0]).toMatchObject({ kind: "threw", during: "reset", message: expect.stringContaining(what) });
  });

  it("does not retry errors that are not the environment's", async () => {
    let attempts = 0;
    const run = runGuarded(
      new Flaky(),
      async () => {
        attempts++;
        throw new Error("policy failed");
      },
      { timeoutMs: 20, scenarioId: "s", trajectoryId: "t" },
    );
    await expect(run).rejects.toThrow("policy failed");
    expect(attempts).toBe(1);
  });

  it("stops at once when the run is aborted", async () => {
    const controller = new AbortController();
    const run = play(new Flaky("hangs"), controller.signal);
    controller.abort();
    await expect(run).rejects.toMatchObject({ code: "ABORTED" });
  });
});
