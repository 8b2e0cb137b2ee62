import { describe, expect, it } from "vitest";
import type { Turn } from "../conversation/trajectory.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import type { EnvironmentState } from "../environment/environment.ts";
import type { ConversationScenario } from "../environment/scenario.ts";
import { StatesetError } from "../error.ts";
import { createRandom } from "../random.ts";
import { RewardFunction } from "../reward/reward-function.ts";
import {
  FunctionReward,
  gain,
  politeShare,
  quickRun,
  tableAgent,
  tableScenarios,
} from "../test-support/table-training.ts";
import { train } from "./train.ts";

const settings = quickRun;
const polite = new FunctionReward(politeShare);

describe("what fails in a run", { timeout: 300_000 }, () => {
  it("completes, reports and still learns with 10% failing and 5% hanging environments and 10% failing rewards", async () => {
    const random = createRandom(4);
    class Flaky extends ConversationEnvironment {
      override async step(state: EnvironmentState<ConversationScenario>, action: Turn) {
        const luck = random.next();
        if (luck < 0.1) throw new Error("the backend is down");
        if (luck < 0.15) await new Promise(() => {});
        return super.step(state, action);
      }
    }
    const reward = new FunctionReward((turns) => {
      if (random.next() < 0.1) throw new Error("no verdict");
      return politeShare(turns);
    });
    const { run } = await train({
      ...settings,
      agent: tableAgent().agent,
      environment: new Flaky({ scenarios: tableScenarios, maxTurns: 3 }),
      reward,
      timeouts: { environmentMs: 30 },
    });
    expect(run.status).toBe("finished");
    // What fails depends on the clock, and counts 0 in the mean.
    expect(gain(run.metrics.map((m) => m.reward!))).toBeGreaterThan(0.1);
    expect(run.metrics.reduce((sum, m) => sum + m.environmentFailures!, 0)).toBeGreaterThan(50);
    expect(run.metrics.reduce((sum, m) => sum + m.rewardFailures!, 0)).toBeGreaterThan(10);
    expect(run.warnings.some((w) => w.kind === "environment-failed" && w.message.includes("the backend is down"))).toBe(
      true,
    );
    expect(
      run.warnings.some((w) => w.kind === "environment-failed" && w.message.includes("no answer within 30 ms")),
    ).toBe(true);
    expect(run.warnings.some((w) => w.kind === "reward-failed" && w.message.includes("no verdict"))).toBe(true);
  });

  it("times out a reward that hangs, and drops a group with fewer than two survivors", async () => {
    const reward = new FunctionReward((turns, { scenario }) =>
      scenario!.id === "scenario-0" ? new Promise<number>(() => {}) : politeShare(turns),
    );
    const { run } = await train({
      ...settings,
      agent: tableAgent().agent,
      reward,
      steps: 1,
      timeouts: { rewardMs: 20 },
    });
    expect(run.metrics[0]).toMatchObject({ droppedGroups: 1, rewardFailures: 8, conversations: 24 });
    expect(run.warnings.map((w) => w.kind)).toEqual(["reward-failed", "group-dropped"]);
  });

  it("does not call a run finished of which nothing came, however short", async () => {
    const environment = new ConversationEnvironment({ scenarios: tableScenarios, maxTurns: 1 });
    const dead = new FunctionReward(() => {
      throw new Error("no connection");
    });
    for (const steps of [1, 2]) {
      const failed = train({ ...settings, steps, agent: tableAgent().agent, environment, reward: dead });
      await expect(failed).rejects.toMatchObject({
        code: "REWARD_FAILED",
        message: expect.stringContaining("no connection") as string,
      });
      await expect(failed).rejects.toThrow(`No conversation came through in ${steps} step`);
    }
  });

  it("nor one whose every conversation failed at its first reply", async () => {
    class Careless extends ConversationEnvironment {
      override async step(): Promise<never> {
        return undefined as never;
      }
    }
    const environment = new Careless({ scenarios: tableScenarios, maxTurns: 1 });
    for (const steps of [1, 2]) {
      const failed = train({ ...settings, steps, agent: tableAgent().agent, environment, reward: polite });
      await expect(failed).rejects.toMatchObject({
        code: "ENVIRONMENT_FAILED",
        message: expect.stringContaining("step(): it returned no { state, done }") as string,
      });
    }
  });

  it("leaves out a conversation whose environment rewards a turn with NaN, also beside a reward function", async () => {
    class Broken extends ConversationEnvironment {
      override async step(state: EnvironmentState<ConversationScenario>, action: Turn) {
        return { ...(await super.step(state, action)), reward: state.scenario.id.endsWith("0") ? Number.NaN : 0 };
      }
    }
    const environment = new Broken({ scenarios: tableScenarios, maxTurns: 3 });
    const { run } = await train({ ...settings, environment, agent: tableAgent().agent, reward: polite, steps: 1 });
    expect(run.metrics[0]).toMatchObject({ rewardFailures: 8, conversations: 24, notFinite: 0 });
    expect(run.warnings[0]!.message).toContain('Reward "environment" gave NaN');
  });

  it("stops at a reward that rewards a turn which is not there, and names it", async () => {
    class Far extends RewardFunction {
      override async compute() {
        return { score: 1, breakdown: {}, turns: { 99: 1 } };
      }
    }
    const run = train({ ...settings, agent: tableAgent().agent, reward: new Far({ name: "far" }) });
    await expect(run).rejects.toThrow(/Reward "far" rewards turn 99 of a conversation that has 6 turns/);
  });

  it("skips an update whose rewards are all NaN, and stops after three in a row", async () => {
    let calls = 0;
    const { agent, policy } = tableAgent();
    const before = Float32Array.from(policy.parameters);
    const reward = new FunctionReward(() => {
      calls++;
      return Number.NaN;
    });
    // Too short for a first look.
    const error = await train({ ...settings, agent, reward, steps: 5 }).catch((e: unknown) => e);
    expect(error).toMatchObject({ code: "NOT_FINITE", message: expect.stringContaining("Nothing was saved") });
    expect(calls).toBe(3 * 32);
    expect(policy.parameters).toEqual(before);
  });

  it("skips an update whose loss is NaN and goes on when the next is fine", async () => {
    const { agent, policy } = tableAgent();
    let forwards = 0;
    const forward = policy.forward.bind(policy);
    policy.forward = async (batch, options) => {
      const pass = await forward(batch, options);
      if (options?.grad !== false && ++forwards === 2) pass.logprobs.fill(Number.NaN);
      return pass;
    };
    const { run } = await train({ ...settings, agent, reward: polite, steps: 4 });
    expect(run.metrics.map((m) => m.notFinite)).toEqual([0, 1, 1, 1]);
    expect(run.metrics.map((m) => m.optimiserSteps)).toEqual([1, 1, 2, 3]);
    expect(run.warnings.map((w) => [w.step, w.kind])).toEqual([[2, "not-finite"]]);
  });

  it.each(["grpo", "trpo"] as const)(
    "skips an update whose gradient is infinite, and says so (%s)",
    async (algorithm) => {
      const { agent, policy } = tableAgent();
      let backwards = 0;
      const backward = policy.backward.bind(policy);
      policy.backward = async (pass, derivatives) => {
        await backward(pass, derivatives);
        if (++backwards === 1) policy.gradients[0] = Number.POSITIVE_INFINITY;
      };
      const before = Float32Array.from(policy.parameters);
      const still: boolean[] = [];
      const onUpdate = () => void still.push(policy.parameters.every((value, i) => value === before[i]));
      const { run } = await train({ ...settings, agent, reward: polite, steps: 2, algorithm, callbacks: { onUpdate } });
      expect(run.warnings[0]).toMatchObject({
        step: 1,
        kind: "not-finite",
        message: /the gradient was NaN or infinite/,
      });
      expect(run.metrics.map((m) => m.optimiserSteps)).toEqual([0, 1]);
      expect(still).toEqual([true, false]);
    },
  );

  it("stops after three in a row also when passes over the same conversations are left", async () => {
    const { agent, policy } = tableAgent();
    let forwards = 0;
    const forward = policy.forward.bind(policy);
    policy.forward = async (batch, options) => {
      const pass = await forward(batch, options);
      if (++forwards <= 3) pass.logprobs.fill(Number.NaN);
      return pass;
    };
    const run = train({ ...settings, agent, reward: polite, steps: 1, updatesPerRollout: 5 });
    await expect(run).rejects.toMatchObject({ code: "NOT_FINITE" });
    expect(forwards).toBe(3);
  });

  it.each(["forward", "backward"] as const)(
    "says what to change when the %s pass of a micro-batch does not fit into memory",
    async (pass) => {
      const { agent, policy } = tableAgent();
      policy[pass] = async () => {
        throw new StatesetError("OUT_OF_MEMORY", "Could not reserve 9 GB.");
      };
      const run = train({ ...settings, agent, reward: polite });
      await expect(run).rejects.toMatchObject({
        code: "OUT_OF_MEMORY",
        message: expect.stringMatching(/9 GB.*holds (\d+) tokens: lower tokenBudget below \1, or set recompute/),
      });
      Object.assign(policy.capabilities, { ranks: 2 });
      await expect(train({ ...settings, agent, reward: polite })).rejects.toMatchObject({
        message: expect.stringMatching(/tokens on 2 ranks: lower tokenBudget below \d+/),
      });
    },
  );

  it("goes on when every conversation of an evaluation fails", async () => {
    const reward = new FunctionReward((turns, { scenario }) => {
      if (scenario!.id === "held") throw new Error("no verdict");
      return politeShare(turns);
    });
    const heldOut = [{ id: "held", userResponses: ["help card"] }];
    const { agent } = tableAgent();
    const { run } = await train({ ...settings, agent, reward, heldOut, steps: 2, evaluation: { every: 1 } });
    expect(run.status).toBe("finished");
    expect(run.evaluation!.before).toMatchObject({ failed: 0, lost: 4 });
    expect(run.best).toBeNull();
    expect(run.metrics[1]).toMatchObject({ "selection/failed": 0, "selection/lost": 4 });
    const said = run.warnings.filter(({ kind }) => kind === "evaluation-failed");
    expect(said.map(({ step }) => step)).toEqual([0, 0, 1, 2, 2]);
    expect(said[0]!.message).toMatch(/4 were lost and nothing was left.*no verdict/);
  });

  it("reports a callback that throws and goes on", async () => {
    const callbacks = {
      onStepEnd() {
        throw new Error("dashboard offline");
      },
    };
    const { run } = await train({ ...settings, agent: tableAgent().agent, reward: polite, steps: 2, callbacks });
    expect(run.warnings.map((w) => w.kind)).toEqual(["callback-failed", "callback-failed"]);
  });

  it("is said when nothing rewards the conversations", async () => {
    const { run } = await train({ ...settings, agent: tableAgent().agent, reward: undefined, steps: 2 } as never);
    expect(run.warnings.map(({ kind, step }) => [kind, step])).toEqual([["no-reward", 1]]);
  });
});
