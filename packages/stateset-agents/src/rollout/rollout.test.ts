import { setTimeout as wait } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import type { Turn } from "../conversation/trajectory.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import type { Environment } from "../environment/environment.ts";
import { parseOptions } from "../options.ts";
import { CompositeReward } from "../reward/composite-reward.ts";
import { rewardFunction } from "../reward/define-reward.ts";
import type { RewardFunction } from "../reward/reward-function.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { emptyReport, failuresBySource, lostBySource } from "./report.ts";
import { environmentRollout, sampleGroups } from "./rollout.ts";
import { type RolloutOptions, rolloutShape } from "./settings.ts";

const scenarios = ["a", "b"].map((id) => ({ id, userResponses: ["refund order", "ok really", "thanks well"] }));
const three = new ConversationEnvironment({ scenarios });
const fine = rewardFunction({ name: "fine" }, () => 1);

async function play(
  {
    environment = three,
    reward = fine,
    ...options
  }: { environment?: Environment; reward?: RewardFunction } & RolloutOptions = {},
  contextLength?: number,
) {
  const policy = createTablePolicy(contextLength === undefined ? {} : { contextLength });
  const agent = new MultiTurnAgent({ policy, sampling: { maxTokens: 400 } });
  const settings = parseOptions(z.strictObject(rolloutShape), options, "play()");
  const report = emptyReport();
  const requests = environment.scenarios.map((scenario, i) => ({ id: `g${i}`, scenario, size: 3, seed: i }));
  const rollout = environmentRollout({ agent, environment, reward, settings, learn: true });
  return { report, groups: await sampleGroups(rollout, requests, { report, minimum: 1 }) };
}

const endings = async (...args: Parameters<typeof play>) => {
  const { groups } = await play(...args);
  return new Set(groups.flatMap(({ trajectories }) => trajectories.map(({ ended }) => ended)));
};

describe("a conversation says why it ended", () => {
  it("done, max-turns by the run or the environment, max-tokens, context-full", async () => {
    expect(await endings()).toEqual(new Set(["done"]));
    expect(await endings({ maxTurns: 1 })).toEqual(new Set(["max-turns"]));
    const short = new ConversationEnvironment({ scenarios, maxTurns: 2 });
    expect(await endings({ environment: short })).toEqual(new Set(["max-turns"]));
    expect(await endings({ sampling: { maxTokens: 1 } })).toContain("max-tokens");
    expect(await endings({}, 24)).toContain("context-full");
  });

  it("and its turns keep what was sampled, also where the environment builds them anew", async () => {
    const forgetful = new ConversationEnvironment({ scenarios });
    const { step } = forgetful;
    forgetful.step = async (state, { role, content }) => step.call(forgetful, state, { role, content });
    const { groups } = await play({ environment: forgetful });
    const replies = groups.flatMap(({ trajectories }) =>
      trajectories.flatMap(({ turns }) => turns.filter((t) => t.role === "assistant")),
    );
    expect(replies.length).toBeGreaterThan(0);
    for (const { content, sampled } of replies) {
      expect(sampled).toEqual({ text: content === "" ? "<end>" : `${content} <end>`, finishReason: "stop" });
    }
  });
});

describe("a failure is typed, counted and kept with what was said before it", () => {
  /** Fails in the second reply of scenario "a". */
  const failing = (how: () => Promise<never>) => {
    const environment = new ConversationEnvironment({ scenarios });
    const { step } = environment;
    environment.step = (state, action) =>
      state.scenario.id === "a" && state.replies === 1 ? how() : step.call(environment, state, action);
    return environment;
  };

  it.each([
    ["threw", () => Promise.reject(new Error("boom")), 3],
    // One retry each.
    ["timeout", () => new Promise<never>(() => {}), 6],
  ] as const)("an environment that %s, where such conversations are dropped", async (kind, how, failures) => {
    const options = { timeouts: { environmentMs: 50 }, onFailure: "drop" as const };
    const { report, groups } = await play({ environment: failing(how), ...options });
    expect(groups.map(({ scenarioId }) => scenarioId)).toEqual(["b"]);
    expect(report.failures).toHaveLength(failures);
    expect(report.failures[0]).toMatchObject({ kind, during: "step", scenarioId: "a", trajectoryId: "g0-m0" });
    expect(lostBySource(report)).toEqual({ environment: 3, agent: 0, reward: 0 });
    expect(report.lost.map(({ id, ended, failure }) => [id, ended, failure!.kind])).toEqual(
      [0, 1, 2].map((member) => [`g0-m${member}`, "failed", kind]),
    );
    // The second reply is the one that was not answered.
    expect(report.lost[0]!.turns.map(({ role }) => role)).toEqual(["user", "assistant", "user", "assistant"]);
    expect(report.lost[0]!.turns.at(-1)!.sampled).toBeDefined();
    expect(report.lost[0]!.chains[0]!.learn).toContain(1);
  });

  it("an environment that threw at a reply, which is kept and not tried again", async () => {
    const less = rewardFunction({ name: "less" }, () => -0.5);
    const { report, groups } = await play({
      environment: failing(() => Promise.reject(new Error("boom"))),
      reward: less,
    });
    expect(groups.map(({ trajectories }) => trajectories.length)).toEqual([3, 3]);
    expect(report).toMatchObject({ requested: 6, completed: 6, lost: [], lowestReward: -0.5 });
    expect(report.failures).toHaveLength(3);
    expect(report.failed).toEqual(groups[0]!.trajectories);
    for (const one of report.failed) expect(one).toMatchObject({ ended: "failed", reward: { score: -0.5 } });
  });

  it("an environment that hung or failed before a reply, which is tried again with other draws", async () => {
    const healthy = (await play()).groups[0]!.trajectories;
    for (const during of ["reset", "step"] as const) {
      const environment = new ConversationEnvironment({ scenarios });
      const { reset, step } = environment;
      const seeds: number[] = [];
      let calls = 0;
      environment.reset = async (scenario, options) => {
        seeds.push(options!.seed!);
        if (during === "reset" && ++calls === 1) throw new Error("busy");
        return reset.call(environment, scenario, options);
      };
      environment.step = (state, action) =>
        during === "step" && ++calls === 1 ? new Promise(() => {}) : step.call(environment, state, action);
      const { report, groups } = await play({ environment, timeouts: { environmentMs: 50 }, concurrency: 1 });
      expect(report.failures).toMatchObject([{ during, trajectoryId: "g0-m0" }]);
      expect(seeds[0]).toBe(seeds[2]);
      expect(seeds[1]).not.toBe(seeds[0]);
      const [first, ...others] = groups[0]!.trajectories;
      const said = ({ turns }: { turns: Turn[] }) => turns.map(({ content }) => content);
      expect(said(first!)).not.toEqual(said(healthy[0]!));
      // Nobody else notices.
      expect(others.map(said)).toEqual(healthy.slice(1).map(said));
    }
  });

  it.each([
    ["threw", rewardFunction({ name: "bad" }, () => Promise.reject(new Error("no")))],
    ["timeout", rewardFunction({ name: "slow" }, () => wait(10_000, 0))],
    ["not-finite", rewardFunction({ name: "nan" }, () => Number.NaN)],
    ["not-finite", new CompositeReward([fine, rewardFunction({ name: "nan" }, () => Number.POSITIVE_INFINITY)])],
  ] as const)("a reward that is %s", async (kind, reward) => {
    const { report, groups } = await play({ reward, timeouts: { rewardMs: 30 } });
    expect(groups).toEqual([]);
    expect(failuresBySource(report).reward.map((failure) => failure.kind)).toEqual(Array(6).fill(kind));
    expect(lostBySource(report)).toEqual({ environment: 0, agent: 0, reward: 6 });
    expect(report.lost[0]!).toMatchObject({ ended: "done", failure: { during: "reward", trajectoryId: "g0-m0" } });
  });

  it("an agent whose hook throws loses the conversation, not the run, and is not asked again", async () => {
    let calls = 0;
    class Failing extends MultiTurnAgent {
      protected override afterGeneration(reply: Turn): Turn {
        if (++calls % 2 === 0) throw new Error("mine");
        return reply;
      }
    }
    const agent = new Failing({ policy: createTablePolicy(), sampling: { maxTokens: 400 } });
    const report = emptyReport();
    const settings = parseOptions(z.strictObject(rolloutShape), { concurrency: 1 }, "play()");
    const rollout = environmentRollout({ agent, environment: three, reward: fine, settings, learn: true });
    const request = { id: "g", scenario: scenarios[0]!, size: 2, seed: 1 };
    await sampleGroups(rollout, [request], { report, minimum: 1 });
    expect(failuresBySource(report).agent).toHaveLength(2);
    expect(lostBySource(report)).toEqual({ environment: 0, agent: 2, reward: 0 });
    expect(report.lost[0]).toMatchObject({ ended: "failed", failure: { kind: "threw", during: "hook" } });
    expect(calls).toBe(4);
  });

  it.each([
    [undefined, 100, 100],
    [undefined, 1, 64],
    [5, 100, 5],
  ])("plays as many as are asked for (%s), or as the engine holds (%i): %i", async (concurrency, slots, most) => {
    const policy = createTablePolicy();
    const { stats } = policy;
    policy.stats = () => ({ ...stats(), slots });
    const environment = new ConversationEnvironment({ scenarios });
    let [running, seen] = [0, 0];
    const { reset } = environment;
    environment.reset = async (...given) => {
      seen = Math.max(seen, ++running);
      await new Promise((resolve) => setImmediate(resolve));
      running--;
      return reset.apply(environment, given);
    };
    const settings = parseOptions(z.strictObject(rolloutShape), { concurrency, maxTurns: 1 }, "play()");
    const agent = new MultiTurnAgent({ policy, sampling: { maxTokens: 1 } });
    const rollout = environmentRollout({ agent, environment, reward: fine, settings, learn: true });
    const request = { id: "g", scenario: scenarios[0]!, size: 120, seed: 1 };
    await sampleGroups(rollout, [request], { report: emptyReport(), minimum: 1 });
    expect(seen).toBe(most);
  });

  it("an environment's own reward that is NaN", async () => {
    const environment = new ConversationEnvironment({ scenarios });
    const { step } = environment;
    environment.step = async (state, action) => ({
      ...(await step.call(environment, state, action)),
      reward: Number.NaN,
    });
    const { report } = await play({ environment });
    expect(new Set(report.failures.map(({ kind, during }) => `${kind} ${during}`))).toEqual(
      new Set(["not-finite reward"]),
    );
  });
});
