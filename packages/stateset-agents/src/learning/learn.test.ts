import { starterModelPath } from "@stateset-agents/starter-model";
import { describe, expect, it } from "vitest";
import { readVector } from "../../test/read-vector.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import type { Algorithm, BatchCounts, LossSequence, Sequence } from "../algorithm/algorithm.ts";
import { type AlgorithmConfig, createAlgorithm } from "../algorithm/algorithms.ts";
import type { Trajectory, TrajectoryGroup } from "../conversation/trajectory.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import { loadNativePolicy } from "../policy/native/load.ts";
import { rewardFunction } from "../reward/define-reward.ts";
import { harvestBestOfN } from "../supervised/best-of-n.ts";
import {
  FunctionReward,
  politeShare,
  quickRun,
  tableAgent,
  tableEnvironment,
  tableScenarios,
} from "../test-support/table-training.ts";
import { train } from "../training/train.ts";
import { learnFrom } from "./learn-from.ts";
import { learningRateAt } from "./optimiser.ts";

const polite = new FunctionReward(politeShare);

/** Conversations of one reply, of which some end by themselves and some at the limit of 12 tokens. */
async function raggedGroups(agent: MultiTurnAgent, reward: FunctionReward): Promise<TrajectoryGroup[]> {
  const environment = new ConversationEnvironment({ scenarios: tableScenarios, maxTurns: 1 });
  const sampling = { maxTokens: 12 };
  return (await harvestBestOfN({ agent, environment, reward, aboveMean: false, sampling })).groups;
}

describe("overlong shaping in conversations of several turns", () => {
  it("takes the penalty off for a reply at its own limit, however many replies there are", async () => {
    const { agent, policy } = tableAgent({ seed: 3, spread: 1 });
    const reward = new FunctionReward(() => 0.5);
    const { groups } = await harvestBestOfN({ agent, environment: tableEnvironment(), reward, aboveMean: false });
    const seen: Sequence[] = [];
    const dapo = createAlgorithm({ algorithm: "dapo", dynamicSampling: false });
    const algorithm: Algorithm = {
      ...dapo,
      advantages(sequences) {
        seen.push(...sequences);
        return dapo.advantages(sequences);
      },
    };
    await learnFrom(policy, groups, { algorithm, replyTokens: 6 });
    const longest = seen.map(({ turn }) => Math.max(...[1, 3, 5].map((own) => turn.filter((t) => t === own).length)));
    expect(new Set(longest)).toContain(6);
    seen.forEach((sequence, i) => {
      // The limit is 6 and the buffer a fifth of it: 5 tokens cost 1/6, 6 the whole penalty.
      const penalty = longest[i]! >= 6 ? 1 : longest[i] === 5 ? 1 / 6 : 0;
      expect(sequence.reward).toBeCloseTo(0.5 - penalty, 12);
    });
  });
});

it("lets overlong replies count where parts of the reward are weighed", async () => {
  const { agent, policy } = tableAgent({ seed: 3, spread: 1 });
  const reward = new FunctionReward(() => 0.5);
  const groups = await raggedGroups(agent, reward);
  for (const { trajectories } of groups) for (const own of trajectories) own.reward.breakdown = { style: 0.5 };
  const seen: (Sequence & { advantage: number })[] = [];
  const dapo = createAlgorithm({ algorithm: "dapo", dynamicSampling: false, rewardWeights: { style: 1 } });
  const algorithm: Algorithm = {
    ...dapo,
    advantages(sequences) {
      const result = dapo.advantages(sequences);
      seen.push(...sequences.map((own, i) => ({ ...own, advantage: result[i]!.advantages[0]! })));
      return result;
    },
  };
  await learnFrom(policy, groups, { algorithm, replyTokens: 12 });
  const overlong = seen.filter(({ reward }) => reward === -0.5);
  const short = seen.filter(({ reward }) => reward === 0.5);
  expect(Math.min(overlong.length, short.length)).toBeGreaterThan(0);
  expect(Math.max(...overlong.map(({ advantage }) => advantage))).toBeLessThanOrEqual(0);
  expect(Math.min(...short.map(({ advantage }) => advantage))).toBeGreaterThanOrEqual(0);
  expect(seen.some(({ advantage }) => advantage !== 0)).toBe(true);
});

describe("maskTruncated", () => {
  it.each([
    [
      "bnpo",
      ({ group, context }: LossSequence, micro: LossSequence[]) => {
        const counted = micro.filter((own) => own.group === group).reduce((sum, { old }) => sum + old.length, 0);
        expect(context!.groupTokens).toBe(counted);
      },
    ],
    [
      "vapo",
      ({ context, reward }: LossSequence, micro: LossSequence[]) => {
        const tokens = (list: LossSequence[]) => list.reduce((sum, { old }) => sum + old.length, 0);
        const positive = tokens(micro.filter((own) => own.reward >= 0.5));
        expect(context!.positiveScale).toBe(reward >= 0.5 ? tokens(micro) / positive : 0);
      },
    ],
  ] as const)("divides %s's loss by the tokens that are learnt from", async (name, check) => {
    const { agent, policy } = tableAgent({ seed: 3, spread: 1 });
    const groups = await raggedGroups(agent, polite);
    const all = groups.flatMap(({ trajectories }) => trajectories);
    const given = createAlgorithm({
      algorithm: name,
      ...(name === "vapo" && { successThreshold: 0.5 }),
    } as AlgorithmConfig);
    let learnt = 0;
    const algorithm: Algorithm = {
      ...given,
      usesZeroAdvantages: true,
      loss(micro, counts) {
        learnt += micro.length;
        for (const sequence of micro) check(sequence, [...micro]);
        return given.loss(micro, counts);
      },
    };
    await learnFrom(policy, groups, { algorithm, maskTruncated: true, tokenBudget: 1e6, steps: 1 });
    expect(learnt).toBeGreaterThan(0);
    expect(learnt).toBeLessThan(all.length);
  });
});

it("divides Dr. GRPO's loss by maxTurns × maxTokens in every step, however long conversations are", async () => {
  const counts: BatchCounts[] = [];
  const { agent } = tableAgent();
  const plain = createAlgorithm("dr-grpo");
  const algorithm: Algorithm = {
    ...plain,
    loss(micro, own) {
      counts.push(own);
      return plain.loss(micro, own);
    },
  };
  let call = 0;
  const environment = tableEnvironment();
  // In the first step conversations have one reply.
  const { step } = environment;
  environment.step = async (state, action) => {
    const next = await step.call(environment, state, action);
    return call > 0 ? next : { ...next, state: { ...next.state, done: true }, done: true };
  };
  await train({
    ...quickRun,
    agent,
    environment,
    reward: polite,
    algorithm,
    steps: 3,
    maxTurns: 4,
    callbacks: { onStepEnd: () => void call++ },
  });
  expect(new Set(counts.map(({ maxTokens }) => maxTokens))).toEqual(new Set([4 * 6]));
});

describe("learnFrom", () => {
  it.each(["grpo", "dapo", "ppo", "vapo", "trpo", "gspo"] as const)(
    "gives the weights that train() gives, from the groups it recorded (%s)",
    async (name) => {
      const created = () =>
        createAlgorithm({ algorithm: name, ...(name === "vapo" && { valueWarmupSteps: 1 }) } as AlgorithmConfig);
      const settings = { updatesPerRollout: 2, minibatches: 2, learningRate: 0.1, seed: 4 } as const;
      const recorded: TrajectoryGroup[][] = [];
      const first = tableAgent();
      const { run } = await train({
        ...quickRun,
        ...settings,
        algorithm: created(),
        agent: first.agent,
        reward: polite,
        steps: 3,
        schedule: "linear",
        callbacks: { onRollouts: ({ groups }) => void recorded.push(structuredClone(groups) as TrajectoryGroup[]) },
      });
      const second = tableAgent();
      const reference = await second.policy.reference();
      // One algorithm for all steps: it may have a state.
      const algorithm = created();
      for (const [i, groups] of recorded.entries()) {
        const { updates } = await learnFrom(second.policy, groups, {
          ...settings,
          algorithm,
          reference,
          step: i + 1,
          learningRate: learningRateAt(i + 1, run.config),
          replyTokens: 6,
          maxTokens: 18,
        });
        expect(updates).toBeGreaterThan(0);
      }
      expect(second.policy.parameters).toEqual(first.policy.parameters);
    },
  );

  it("begins with a critic at zero, so that the first advantages are the returns", async () => {
    const policy = await loadNativePolicy({ dir: starterModelPath });
    const { groups } = await harvestBestOfN({
      agent: new MultiTurnAgent({ policy, sampling: { maxTokens: 8 } }),
      environment: new ConversationEnvironment({ scenarios: [{ id: "late", userResponses: ["It is late.", "Yes."] }] }),
      reward: rewardFunction(({ turns }) => turns.at(-1)!.content.length),
      n: 4,
      aboveMean: false,
    });
    const plain = createAlgorithm({ algorithm: "a2c", gamma: 0.9, whiten: false });
    let checked = 0;
    const algorithm: Algorithm = {
      ...plain,
      advantages(sequences) {
        const result = plain.advantages(sequences);
        sequences.forEach(({ oldValues, reward }, i) => {
          const { advantages, returns } = result[i]!;
          expect(oldValues).toEqual(new Float32Array(advantages.length));
          const discounted = advantages.map((_, t) => reward * 0.9 ** (advantages.length - 1 - t));
          advantages.forEach((advantage, t) => {
            expect(advantage).toBeCloseTo(discounted[t]!, 4);
          });
          expect(advantages).toEqual(returns);
          checked++;
        });
        return result;
      },
    };
    const { metrics } = await learnFrom(policy, groups, { algorithm });
    expect(checked).toBe(4);
    expect(metrics).toMatchObject({ value: 0, explainedVariance: 0 });
    await policy.close();
  });

  it("gives the weights of train() on the embedded engine too, with a KL penalty and an adapter", async () => {
    const lora = { rank: 4, alpha: 8, dropout: 0, targetModules: "all-linear" } as const;
    const open = () => loadNativePolicy({ dir: starterModelPath, lora });
    const settings = { learningRate: 1e-3, kl: { coefficient: 0.1 }, updatesPerRollout: 2, tokenBudget: 400 } as const;
    const [first, second] = [await open(), await open()];
    const recorded: TrajectoryGroup[][] = [];
    const { run } = await train({
      ...settings,
      agent: new MultiTurnAgent({ policy: first, sampling: { maxTokens: 12 } }),
      environment: new ConversationEnvironment({
        scenarios: ["My order is late.", "Hello!"].map((text, i) => ({ id: String(i), userResponses: [text, "Yes."] })),
      }),
      reward: rewardFunction(({ turns }) => turns.map(({ content }) => content).join("").length % 7),
      steps: 3,
      groupsPerStep: 2,
      groupSize: 4,
      warmup: 0,
      schedule: "constant",
      dir: false,
      callbacks: { onRollouts: ({ groups }) => void recorded.push(structuredClone(groups) as TrajectoryGroup[]) },
    });
    expect(run.metrics.at(-1)!.kl).toBeGreaterThan(0);
    const reference = await second.reference();
    for (const [i, groups] of recorded.entries()) {
      await learnFrom(second, groups, { ...settings, reference, step: i + 1 });
    }
    expect(await readVector(second, "parameters")).toEqual(await readVector(first, "parameters"));
    expect(second.version).toBe(first.version);
    await Promise.all([first.close(), second.close()]);
  });

  it("raises the reward on groups from elsewhere, and lowers it when their rewards are flipped", async () => {
    const after = async (sign: number) => {
      const { agent, policy } = tableAgent();
      for (let step = 1; step <= 8; step++) {
        const { groups } = await harvestBestOfN({
          agent,
          environment: tableEnvironment(),
          reward: new FunctionReward((turns) => sign * politeShare(turns)),
          seed: step,
        });
        await learnFrom(policy, groups, { learningRate: 0.3, step });
      }
      const { groups } = await harvestBestOfN({ agent, environment: tableEnvironment(), reward: polite, seed: 99 });
      const scores = groups.flatMap(({ trajectories }) => trajectories.map(({ reward }) => reward.score));
      return scores.reduce((sum, score) => sum + score, 0) / scores.length;
    };
    expect(await after(1)).toBeGreaterThan((await after(-1)) + 0.3);
  });

  it("reads groups back from JSON, and names what is wrong with those it cannot learn from", async () => {
    const { agent, policy } = tableAgent();
    const other = tableAgent();
    const { groups } = await harvestBestOfN({ agent, environment: tableEnvironment(), reward: polite });
    const plain = (_: string, value: unknown) =>
      ArrayBuffer.isView(value) ? Array.from(value as Float32Array) : value;
    const parsed = () => JSON.parse(JSON.stringify(groups, plain)) as TrajectoryGroup[];
    await learnFrom(policy, groups, { learningRate: 0.1 });
    await learnFrom(other.policy, parsed(), { learningRate: 0.1 });
    expect(other.policy.parameters).toEqual(policy.parameters);
    const broken = (change: (trajectory: Trajectory) => object) => {
      const own = parsed();
      const [one] = own[1]!.trajectories;
      own[1]!.trajectories[0] = { ...one!, ...change(one!) } as Trajectory;
      return learnFrom(policy, own, {});
    };
    const chain = (change: object) => broken(({ chains }) => ({ chains: [{ ...chains[0]!, ...change }] }));
    const at = String.raw`groups\[1\]\.trajectories\[0\]`;
    for (const [result, what] of [
      [chain({ learn: [1] }), `1 learn for \\d+ tokens in ${at}\\.chains\\[0\\]`],
      [chain({ turn: undefined }), `no turn in ${at}`],
      [
        broken(({ chains }) => ({
          chains: [{ ...chains[0]!, logprobs: Array.from(chains[0]!.logprobs, () => -Infinity) }],
        })),
        "log-prob -Infinity at token",
      ],
      [broken(() => ({ temperature: 0 })), `temperature 0 in ${at}`],
      [broken(() => ({ reward: undefined })), `no finite reward in ${at}`],
      [broken(() => ({ failure: { message: "boom" } })), "which failed: boom"],
      [learnFrom(policy, undefined as never), "no list of groups"],
    ] as const) {
      await expect(result).rejects.toMatchObject({ code: "INVALID_DATA", message: expect.stringMatching(what) });
    }
  });

  it("leaves nothing behind when it fails, and refuses a second learner beside it", async () => {
    const after = async (fail: boolean) => {
      const { agent, policy } = tableAgent();
      const { groups } = await harvestBestOfN({ agent, environment: tableEnvironment(), reward: polite });
      const loss = createAlgorithm("grpo");
      let call = 0;
      const throwing: Algorithm = {
        ...loss,
        loss(micro, counts) {
          if (++call === 2) throw new Error("mine");
          return loss.loss(micro, counts);
        },
      };
      const small = { tokenBudget: 64, learningRate: 0.1 };
      if (fail) await expect(learnFrom(policy, groups, { ...small, algorithm: throwing })).rejects.toThrow("mine");
      const [first, second] = await Promise.allSettled([
        learnFrom(policy, groups, small),
        learnFrom(policy, groups, small),
      ]);
      expect([first!.status, second!.status]).toEqual(["fulfilled", "rejected"]);
      return policy.parameters;
    };
    expect(await after(true)).toEqual(await after(false));
  });

  it("refuses what it cannot learn from, and options it does not have", async () => {
    const { agent, policy } = tableAgent();
    const { groups } = await harvestBestOfN({ agent, environment: tableEnvironment(), reward: polite });
    const bare = groups.map((group) => ({
      ...group,
      trajectories: group.trajectories.map((one) => ({
        ...one,
        chains: one.chains.map((chain) => ({ ...chain, learn: new Uint8Array(chain.tokens.length) })),
      })),
    }));
    await expect(learnFrom(policy, groups, { algorithm: "dapo" })).rejects.toThrow(/dapo needs replyTokens/);
    await expect(learnFrom(policy, groups, { algorithm: "vapo" })).rejects.toThrow(/vapo needs steps/);
    await expect(learnFrom(policy, groups, { algorithm: "dr-grpo" })).rejects.toThrow(/dr-grpo needs maxTokens/);
    await expect(learnFrom(policy, groups, { kl: { coefficient: 0.1 } })).rejects.toThrow(/needs a reference/);
    const grpo = createAlgorithm("grpo");
    const algorithm: Algorithm = { ...grpo, loss: (...args) => ({ ...grpo.loss(...args), loss: Number.NaN }) };
    const before = Float32Array.from(policy.parameters);
    expect((await learnFrom(policy, groups, { algorithm })).skipped).toEqual(["the loss"]);
    const many = { algorithm, updatesPerRollout: 4 };
    await expect(learnFrom(policy, groups, many)).rejects.toMatchObject({ code: "NOT_FINITE" });
    expect(policy.parameters).toEqual(before);
    await expect(learnFrom(policy, bare, {})).rejects.toThrow(/no conversation with tokens to learn from/);
    await expect(learnFrom(policy, groups, { learningrate: 1 } as never)).rejects.toThrow(/learningRate/);
    // @ts-expect-error GRPO has no overlong shaping.
    await expect(learnFrom(policy, groups, { overlongPenalty: 1 })).rejects.toThrow(
      /"overlongPenalty" is not an option/,
    );
  });
});
