import { describe, expect, it, vi } from "vitest";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import { TaskEnvironment } from "../environment/task-environment.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { FunctionReward, politeShare, tableAgent } from "../test-support/table-training.ts";
import { compare, type Evaluation, evaluate } from "./evaluate.ts";

const scenario = (id: string, text: string) => ({ id, userResponses: [text, "ok really"] });
const environment = new ConversationEnvironment({
  scenarios: [scenario("a", "refund order"), scenario("b", "card broken"), scenario("c", "order late")],
  maxTurns: 2,
});
const reward = new FunctionReward(politeShare);
const withoutGroups = ({ groups: _, ...rest }: Evaluation) => rest;

describe("evaluate", () => {
  it("gives mean, interval, parts and one line a scenario", async () => {
    const result = await evaluate({ agent: tableAgent().agent, environment, reward, samples: 5, seed: 3 });
    expect(result.reward.count).toBe(3);
    expect(result.reward.low).toBeUndefined();
    expect(result.parts.function).toEqual(result.reward);
    expect(result.scenarios.map(({ id, samples }) => [id, samples])).toEqual([
      ["a", 5],
      ["b", 5],
      ["c", 5],
    ]);
    const means = result.scenarios.map(({ mean }) => mean);
    expect(result.reward.mean).toBeCloseTo(means.reduce((sum, value) => sum + value, 0) / 3);
    expect(result).toMatchObject({ failed: 0, failures: [], stub: false });
  });

  it("gives an interval from 5 scenarios on", async () => {
    const scenarios = [...environment.scenarios, scenario("d", "help order"), scenario("e", "order refund")];
    const { reward: five } = await evaluate({ agent: tableAgent().agent, environment, scenarios, reward, samples: 8 });
    expect(five.count).toBe(5);
    expect(five.low).toBeLessThan(five.mean);
    expect(five.high).toBeGreaterThan(five.mean);
  });

  it("plays each scenario once when it is greedy, the same at every seed", async () => {
    const greedy = (seed: number) =>
      evaluate({ agent: tableAgent().agent, environment, reward, seed, sampling: { temperature: 0 } });
    const { scenarios } = await greedy(1);
    expect(scenarios.map(({ samples }) => samples)).toEqual([1, 1, 1]);
    expect((await greedy(2)).scenarios).toEqual(scenarios);
  });

  it("repeats itself with the same seed, also on a part of the scenarios", async () => {
    const { agent } = tableAgent();
    const whole = await evaluate({ agent, environment, reward, seed: 3 });
    expect(withoutGroups(await evaluate({ agent, environment, reward, seed: 3 }))).toEqual(withoutGroups(whole));
    const part = await evaluate({ agent, environment, scenarios: environment.scenarios.slice(1, 2), reward, seed: 3 });
    expect(part.scenarios[0]).toEqual(whole.scenarios[1]);
    expect((await evaluate({ agent, environment, reward, seed: 4 })).groups).not.toEqual(whole.groups);
  });

  it("marks nothing for learning", async () => {
    const { groups } = await evaluate({ agent: tableAgent().agent, environment, reward, samples: 1 });
    expect(
      groups.every((group) =>
        group.trajectories.every((one) => one.chains.every((chain) => chain.learn.every((bit) => bit === 0))),
      ),
    ).toBe(true);
  });

  it("counts failures and says what they were; when all fail, it fails", async () => {
    const { agent } = tableAgent();
    let calls = 0;
    const flaky = new FunctionReward(() => {
      if (calls++ % 3 === 0) throw new Error("no judge");
      return 1;
    });
    const result = await evaluate({ agent, environment, reward: flaky, samples: 3 });
    expect(result).toMatchObject({ failed: 0, lost: 3 });
    expect(result.failures[0]).toContain("no judge");
    expect(result.scenarios.reduce((sum, { samples }) => sum + samples, 0)).toBe(6);
    const broken = new FunctionReward(() => {
      throw new Error("never");
    });
    await expect(evaluate({ agent, environment, reward: broken })).rejects.toThrow(
      "All 12 conversations of evaluate() failed. First: never",
    );
  });

  it("leaves out conversations whose check gives no verdict, and says so: they are not the agent's failures", async () => {
    const tasks = ["a", "b"].map((id) => ({ id, goal: "refund order" }));
    const check = (_: unknown, { scenario: { id } }: { scenario: { id: string } }) => id === "a" || ("yes" as never);
    const asked = { agent: tableAgent().agent, samples: 2 };
    const result = await evaluate({ ...asked, environment: new TaskEnvironment({ tasks, check, maxTurns: 1 }) });
    expect(result).toMatchObject({ failed: 0, lost: 2, reward: { mean: 1, count: 1 } });
    expect(result.failures).toHaveLength(2);
    expect(result.failures[0]).toContain('The check of task "b" returned "yes". Return true or false');
    const never = new TaskEnvironment({ tasks, check: () => "no" as never });
    await expect(evaluate({ ...asked, environment: never })).rejects.toThrow(/All 4 .* The check of task "a" returned/);
  });

  it("says once of a model that every conversation filled its context", async () => {
    const said: string[] = [];
    const warn = vi.spyOn(process, "emitWarning").mockImplementation((text) => void said.push(String(text)));
    const policy = createTablePolicy({ contextLength: 24, spread: 1 });
    const agent = new MultiTurnAgent({ policy, sampling: { maxTokens: 4 } });
    const scenarios = [{ id: "a", userResponses: Array<string>(9).fill("please order refund") }];
    const long = new ConversationEnvironment({ scenarios, maxTurns: 9 });
    for (const seed of [1, 2]) await evaluate({ agent, environment: long, reward, samples: 2, seed });
    await evaluate({ agent: tableAgent().agent, environment, reward, samples: 1 });
    warn.mockRestore();
    expect(said).toEqual([
      expect.stringMatching(
        /^evaluate\(\): every conversation \(2\) ended because the context of table was full, 24 tokens\. On the average one held/,
      ),
    ]);
  });

  it("names a misspelt option, and refuses an empty list", async () => {
    const { agent } = tableAgent();
    await expect(evaluate({ agent, environment, sample: 3 } as never)).rejects.toThrow('Did you mean "samples"?');
    await expect(evaluate({ agent, environment, scenarios: [] })).rejects.toThrow("no scenarios");
  });
});

describe("compare", () => {
  it("pairs scenarios by id, whatever their order", async () => {
    const { agent } = tableAgent();
    const a = await evaluate({ agent, environment, reward, seed: 1 });
    const b = { ...a, scenarios: [...a.scenarios].reverse().map((one) => ({ ...one, mean: one.mean + 0.25 })) };
    const { reward: result, scenarios } = compare(a, b);
    expect(result.difference.mean).toBeCloseTo(0.25);
    expect(scenarios.map(({ id }) => id)).toEqual(["a", "b", "c"]);
    expect(() => compare(a, { ...a, scenarios: [] })).toThrow("no scenario in common");
  });

  it("counts a failure the same on both sides, unless its score was given", async () => {
    class Touchy extends ConversationEnvironment {
      override step(...[state, reply]: Parameters<ConversationEnvironment["step"]>) {
        if (state.scenario.id === "b") throw new Error("no such card");
        return super.step(state, reply);
      }
    }
    const touchy = new Touchy({ scenarios: environment.scenarios, maxTurns: 2 });
    const of = (score: number, onFailure: "lowest" | { score: number } = "lowest") => {
      const constant = new FunctionReward(() => score);
      return evaluate({ agent: tableAgent().agent, environment: touchy, reward: constant, samples: 2, onFailure });
    };
    const [kind, harsh] = [await of(0.5), await of(-2)];
    expect(kind.scenarios.map(({ mean, failed }) => [mean, failed])).toEqual([
      [0.5, 0],
      [0, 2],
      [0.5, 0],
    ]);
    expect(compare(kind, harsh).scenarios.map(({ a, b }) => [a, b])).toEqual([
      [0.5, -2],
      [-2, -2],
      [0.5, -2],
    ]);
    const given = await of(0.5, { score: -1 });
    expect(compare(given, harsh).scenarios[1]).toEqual({ id: "b", a: -1, b: -2 });
  });
});
