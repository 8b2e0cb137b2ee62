import { describe, expect, it } from "vitest";
import { TaskEnvironment, type TaskEnvironmentOptions } from "./task-environment.ts";

const tasks = [{ id: "sum", goal: "What is 2 + 2?", followUps: ["Count again."] }];
const say = (content: string) => ({ role: "assistant" as const, content });

describe("TaskEnvironment", () => {
  it("ends with success as soon as the check says so", async () => {
    const environment = new TaskEnvironment({ tasks, check: (reply) => /\b4\b/.test(reply.content) });
    let state = await environment.reset(undefined, { seed: 0 });
    expect(state.turns[0]!.content).toBe("What is 2 + 2?");
    const wrong = await environment.step(state, say("5"));
    expect(wrong).toMatchObject({ done: false, reward: 0, userTurn: { content: "Count again." } });
    state = wrong.state;
    const right = await environment.step(state, say("It is 4."));
    expect(right).toMatchObject({
      done: true,
      reward: 1,
      state: { ended: "done", metadata: { success: true, progress: 1 } },
    });
  });

  it("pays progress once: rewards add up to the best progress, also when it falls back", async () => {
    const progress = [0.25, 0.75, 0.5, 1];
    const environment = new TaskEnvironment({ tasks, check: (_, state) => progress[state.replies]! });
    let state = await environment.reset(undefined, { seed: 0 });
    const rewards: number[] = [];
    while (!state.done) {
      const result = await environment.step(state, say("x"));
      rewards.push(result.reward!);
      state = result.state;
    }
    expect(rewards).toEqual([0.25, 0.5, 0, 0.25]);
  });

  it("gives up after maxTurns, and passes feedback on until then", async () => {
    const environment = new TaskEnvironment({
      tasks,
      maxTurns: 2,
      check: () => ({ success: false, progress: 0.5, feedback: "Warmer." }),
    });
    const first = await environment.step(await environment.reset(), say("x"));
    expect(first.userTurn?.content).toBe("Warmer.");
    const second = await environment.step(first.state, say("y"));
    expect(second).toMatchObject({
      done: true,
      state: { ended: "max-turns", metadata: { success: false, progress: 0.5 } },
    });
  });

  it("refuses impossible progress and malformed tasks", async () => {
    const environment = new TaskEnvironment({ tasks, check: () => Number.NaN });
    await expect(environment.step(await environment.reset(), say("x"))).rejects.toMatchObject({
      code: "CHECK_FAILED",
    });
    const check = () => true;
    expect(() => new TaskEnvironment({ tasks: [], check })).toThrow("no tasks");
    expect(() => new TaskEnvironment({ tasks: [{ id: "x", goal: "" }], check })).toThrow("Task 1.goal");
    const misspelt = { tasks: [{ id: "x", goal: "y", promt: "z" }], check } as unknown as TaskEnvironmentOptions;
    expect(() => new TaskEnvironment(misspelt)).toThrow('Did you mean "prompt"?');
  });
});
