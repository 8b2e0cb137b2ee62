/** What only the real engine can show, on the starter model. */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { readVector } from "../../test/read-vector.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { type AlgorithmName, algorithmNames, createAlgorithm } from "../algorithm/algorithms.ts";
import { demoEnvironment, demoReward } from "../cli/demo/parts.ts";
import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import { scoreSequences } from "../learning/score-sequences.ts";
import { sequencesOf } from "../learning/sequence.ts";
import { accumulate } from "../learning/update.ts";
import type { Derivatives, Policy } from "../policy/policy.ts";
import { rewardFunction } from "../reward/define-reward.ts";
import { emptyReport } from "../rollout/report.ts";
import { environmentRollout, sampleGroups } from "../rollout/rollout.ts";
import { resolveConfig } from "./config.ts";
import { train } from "./train.ts";

const root = mkdtempSync(join(tmpdir(), "engine-training-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const environment = demoEnvironment({ heldOut: false });
const reward = demoReward();
const settings = {
  environment,
  reward,
  steps: 2,
  groupsPerStep: 2,
  groupSize: 4,
  maxTurns: 2,
  learningRate: 1e-4,
  warmup: 0,
  schedule: "constant",
} as const;

async function withAgent<T>(
  options: { threads?: number; lora?: boolean },
  use: (agent: MultiTurnAgent) => Promise<T>,
): Promise<T> {
  const agent = new MultiTurnAgent({ sampling: { temperature: 0.9, maxTokens: 20 }, ...options });
  await agent.initialize();
  try {
    return await use(agent);
  } finally {
    await agent.close();
  }
}

const weights = (agent: MultiTurnAgent) => readVector(agent.policy, "parameters");

describe("training on the engine", { timeout: 300_000 }, () => {
  it.each([
    ["all weights", false],
    ["an adapter", true],
  ])("gives the same metrics and %s whatever the thread count, with a first ratio of exactly 1", async (_, lora) => {
    const once = (threads: number) =>
      withAgent({ threads, lora }, async (agent) => {
        const { run } = await train({ ...settings, agent, dir: false, updatesPerRollout: 2 });
        return { metrics: run.metrics, weights: await weights(agent) };
      });
    const one = await once(1);
    const two = await once(2);
    expect(two.metrics).toEqual(one.metrics);
    expect(Buffer.from(two.weights.buffer).equals(Buffer.from(one.weights.buffer))).toBe(true);
    for (const metrics of one.metrics) expect(metrics.firstRatioMax).toBe(1);
    expect(one.metrics[0]!.ratioMax).toBeGreaterThan(1);
  });

  it("takes TRPO's step on an adapter, within its trust region", () =>
    withAgent({ lora: true }, async (agent) => {
      const before = await weights(agent);
      expect(before.length).toBe(agent.policy.model.trainableParameters);
      const region = { maxKl: 0.005, cgSteps: 3 };
      const { run } = await train({ ...settings, ...region, agent, dir: false, steps: 1, algorithm: "trpo" });
      const [metrics] = run.metrics;
      expect(metrics).toMatchObject({ trustRegionAccepted: 1, firstRatioMax: 1 });
      expect(metrics!.trustRegionKl).toBeGreaterThan(0);
      expect(metrics!.trustRegionKl).toBeLessThanOrEqual(0.005);
      const after = await weights(agent);
      const moved = Math.sqrt(after.reduce((sum, value, i) => sum + (value - before[i]!) ** 2, 0));
      expect(moved / metrics!.stepNorm!).toBeCloseTo(1, 3);
    }));

  it("scores a recalled conversation as the update does, so that its first ratio is exactly 1", () =>
    withAgent({}, async (agent) => {
      let rewarded = 0;
      const once = rewardFunction({ name: "once" }, () => (rewarded++ === 0 ? 1 : 0));
      const one = new ConversationEnvironment({ scenarios: environment.scenarios.slice(0, 1) });
      const { run } = await train({ ...settings, agent, environment: one, reward: once, groupsPerStep: 1, dir: false });
      expect(run.metrics.map((metrics) => metrics.recalledConversations)).toEqual([undefined, 1]);
      expect(run.metrics[1]).toMatchObject({ firstRatioMax: 1, reward: 0, learnedConversations: 5 });
      expect(run.metrics[1]!.gradNorm).toBeGreaterThan(0);
    }));

  it("does not move a single weight with a constant reward", () =>
    withAgent({}, async (agent) => {
      const before = await weights(agent);
      await train({ ...settings, agent, dir: false, reward: rewardFunction({ name: "constant" }, () => 1) });
      const after = await weights(agent);
      expect(Buffer.from(after.buffer).equals(Buffer.from(before.buffer))).toBe(true);
    }));

  it("ends in the same bytes when it is interrupted and resumed", async () => {
    const whole = join(root, "whole");
    const expected = await withAgent({}, async (agent) => {
      await train({ ...settings, agent, dir: whole });
      return weights(agent);
    });
    const dir = join(root, "interrupted");
    await withAgent({}, async (agent) => {
      const stop = new AbortController();
      const { run } = await train({
        ...settings,
        agent,
        dir,
        signal: stop.signal,
        callbacks: { onStepEnd: () => stop.abort() },
      });
      expect(run.status).toBe("interrupted");
    });
    const resumed = await withAgent({}, async (agent) => {
      await train({ environment, reward, agent, resumeFrom: dir });
      return weights(agent);
    });
    expect(Buffer.from(resumed.buffer).equals(Buffer.from(expected.buffer))).toBe(true);
    for (const file of ["metrics.jsonl", "final/model.safetensors"]) {
      expect(readFileSync(join(dir, file)).equals(readFileSync(join(whole, file))), file).toBe(true);
    }
  });

  it("gives every algorithm the gradient of one-by-one processing, whatever the token budget", () =>
    withAgent({ lora: true }, async (agent) => {
      await agent.policy.addValueHead();
      const { groups } = await sampled(agent);
      for (const name of algorithmNames) {
        const gradient = (tokenBudget: number) => gradientOf(agent, groups, name, tokenBudget);
        const [together, alone] = [await gradient(1e5), await gradient(1)];
        expect(relativeDifference(together, alone), name).toBeLessThan(1e-4);
      }
    }));

  it.each([
    ["all weights", false],
    ["an adapter", true],
  ])(
    "gives the gradient of %s the same bits with the same token budget, and another rounding with another",
    (_, lora) =>
      withAgent({ lora }, async (agent) => {
        const { groups } = await sampled(agent);
        const [whole, split, again] = [
          await gradientOf(agent, groups, "grpo", 1e5),
          await gradientOf(agent, groups, "grpo", 16),
          await gradientOf(agent, groups, "grpo", 16),
        ];
        expect(relativeDifference(split, whole)).toBeLessThan(1e-5);
        expect(Buffer.from(again.buffer).equals(Buffer.from(split.buffer))).toBe(true);
      }),
  );

  it("puts gradient on the tokens the policy sampled and on no others", () =>
    withAgent({ lora: true }, async (agent) => {
      const { policy } = agent;
      const { groups, report } = await sampled(agent);
      const sequences = sequencesOf(groups);
      const algorithm = createAlgorithm("grpo");
      const tokens = sequences.reduce((sum, { old }) => sum + old.length, 0);
      expect(tokens).toBe(report.sampledTokens);
      const batch = {
        sequences,
        advantages: algorithm.advantages(sequences),
        members: [...sequences.keys()],
        counts: { sequences: sequences.length, tokens, groups: 2, maxTokens: 60 },
      };
      const learner = { policy, algorithm, reference: undefined, settings: resolveConfig({ tokenBudget: 1e5 }) };
      await accumulate(learner, batch, (micro, counts) => algorithm.loss(micro, counts));
      const gradient = await readVector(policy, "gradients");
      await policy.zeroGradients();

      // Independently: one conversation at a time, no tree, derivatives only where a reply was sampled.
      for (const [i, { chains, old, temperature }] of sequences.entries()) {
        let t = 0;
        for (const chain of chains) {
          const tree = {
            tokens: chain.tokens,
            nodeStart: Int32Array.of(0, chain.tokens.length),
            nodeParent: Int32Array.of(-1),
            wanted: chain.learn,
          };
          const pass = await policy.forward(tree, { temperature });
          const share = -1 / (sequences.length * old.length);
          const derivatives = Float32Array.from(chain.learn, (learn) =>
            learn === 1 ? share * batch.advantages[i]!.advantages[t++]! : 0,
          );
          await policy.backward(pass, { logprobs: derivatives });
        }
      }
      const alone = await readVector(policy, "gradients");
      expect(relativeDifference(gradient, alone)).toBeLessThan(1e-4);

      // And the derivatives the engine is given in a run are zero on everything that was not sampled.
      const given = await derivativesOfARun(agent);
      expect(given.outside).toBe(0);
      expect(given.inside).toBeGreaterThan(0);
    }));
});

/** Six conversations of up to three replies. */
async function sampled(agent: MultiTurnAgent) {
  const report = emptyReport();
  const config = resolveConfig({ maxTurns: 3, concurrency: 8 });
  const rollout = environmentRollout({ agent, environment, reward, settings: config, learn: true });
  const requests = [0, 1].map((i) => ({ id: `g${i}`, scenario: environment.scenarios[i]!, size: 3, seed: i }));
  return { groups: await sampleGroups(rollout, requests, { report }), report };
}

async function gradientOf(
  { policy }: MultiTurnAgent,
  groups: readonly TrajectoryGroup[],
  name: AlgorithmName,
  tokenBudget: number,
): Promise<Float32Array> {
  const algorithm = createAlgorithm(name);
  const reference = await policy.reference();
  const learner = { policy, algorithm, reference, settings: { ...resolveConfig(), tokenBudget } };
  const sequences = sequencesOf(groups);
  await scoreSequences(learner, sequences, { values: algorithm.needs.values === true, reference: true });
  const tokens = sequences.reduce((sum, { old }) => sum + old.length, 0);
  const batch = {
    sequences,
    advantages: algorithm.advantages(sequences),
    members: [...sequences.keys()],
    counts: { sequences: sequences.length, tokens, groups: groups.length, maxTokens: 60 },
  };
  await accumulate(learner, batch, (micro, counts) => algorithm.loss(micro, counts));
  const vector = await readVector(policy, "gradients");
  await policy.zeroGradients();
  await reference.close();
  return vector;
}

/** ‖a − b‖ / ‖b‖ of gradients that are not nothing. */
function relativeDifference(a: Float32Array, b: Float32Array): number {
  const size = b.reduce((sum, value) => sum + value * value, 0);
  expect(Math.sqrt(size)).toBeGreaterThan(1e-4);
  return Math.sqrt(a.reduce((sum, value, i) => sum + (value - b[i]!) ** 2, 0) / size);
}

async function derivativesOfARun(agent: MultiTurnAgent): Promise<{ inside: number; outside: number }> {
  const count = { inside: 0, outside: 0 };
  const policy: Policy = Object.create(agent.policy, {
    forward: {
      value: async (...args: Parameters<Policy["forward"]>) => {
        const pass = await agent.policy.forward(...args);
        wanted.set(pass, args[0].wanted);
        return pass;
      },
    },
    backward: {
      value: (...[pass, derivatives]: [Parameters<Policy["backward"]>[0], Derivatives]) => {
        derivatives.logprobs!.forEach((d, i) => {
          if (d !== 0) count[wanted.get(pass)![i] === 1 ? "inside" : "outside"]++;
        });
        return agent.policy.backward(pass, derivatives);
      },
    },
  });
  const wanted = new WeakMap<object, Uint8Array>();
  const watched = new MultiTurnAgent({ policy, sampling: { temperature: 0.9, maxTokens: 20 } });
  await train({ ...settings, agent: watched, dir: false, steps: 1 });
  return count;
}
