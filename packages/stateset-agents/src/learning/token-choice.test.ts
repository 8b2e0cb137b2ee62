/** Which tokens get a policy gradient, whatever the algorithm. */
import { describe, expect, it } from "vitest";
import type { Algorithm, LossSequence } from "../algorithm/algorithm.ts";
import { algorithmNames, createAlgorithm } from "../algorithm/algorithms.ts";
import { checkGradient } from "../algorithm/check-gradient.ts";
import { meanMetrics } from "../algorithm/metrics.ts";
import { countsOf, randomLossSequences } from "../algorithm/random-batch.ts";
import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import { harvestBestOfN } from "../supervised/best-of-n.ts";
import { FunctionReward, politeShare, quickRun, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { train } from "../training/train.ts";
import { learnFrom } from "./learn-from.ts";
import type { Learner } from "./learner.ts";
import { objective } from "./token-choice.ts";

const reward = new FunctionReward(politeShare);
/** Rows of very different entropy. */
const opened = () => tableAgent({ seed: 3, spread: 3 });

async function sampled(): Promise<TrajectoryGroup[]> {
  const { agent } = opened();
  return (await harvestBestOfN({ agent, environment: tableEnvironment(), reward, aboveMean: false })).groups;
}

/** What the loss saw of every token, and which rows of the table moved. */
async function learnt(groups: readonly TrajectoryGroup[], options: object) {
  const { policy } = opened();
  const before = Float32Array.from(policy.parameters);
  const seen: LossSequence[] = [];
  const grpo = createAlgorithm("grpo");
  const algorithm: Algorithm = {
    ...grpo,
    usesZeroAdvantages: true,
    loss(micro, counts) {
      seen.push(...micro);
      return grpo.loss(micro, counts);
    },
  };
  const { metrics } = await learnFrom(policy, groups, { algorithm, learningRate: 0.1, ...options });
  const size = policy.model.vocabSize;
  const rows = new Set<number>();
  for (let i = 0; i < size * size; i++) if (policy.parameters[i] !== before[i]) rows.add(Math.floor(i / size));
  const tokens = seen.flatMap(({ entropy, advantages }) =>
    [...advantages].map((advantage, t) => ({ advantage, entropy: entropy![t]! })),
  );
  return { tokens, rows, metrics };
}

describe("entropyQuantile", () => {
  it("gives a gradient to the most uncertain share of the step's tokens, and to no others", async () => {
    const groups = await sampled();
    const all = await learnt(groups, {});
    const some = await learnt(groups, { entropyQuantile: 0.2 });
    expect(all.metrics).not.toHaveProperty("entropyThreshold");
    const threshold = some.metrics.entropyThreshold!;
    const above = all.tokens.filter(({ entropy }) => entropy >= threshold).length / all.tokens.length;
    // A table has few rows, so that many tokens share an entropy.
    expect(above).toBeGreaterThanOrEqual(0.2);
    expect(above).toBeLessThan(0.35);
    some.tokens.forEach(({ advantage, entropy }, i) => {
      expect(advantage).toBe(entropy >= threshold ? all.tokens[i]!.advantage : 0);
    });
    expect(some.rows.size).toBeGreaterThan(0);
    expect(some.rows.size).toBeLessThan(all.rows.size / 2);
  });

  it("takes the quantile over the whole step, however it is split into passes, and over what is learnt from", async () => {
    const groups = await sampled();
    const whole = await learnt(groups, { entropyQuantile: 0.3 });
    const split = await learnt(groups, { entropyQuantile: 0.3, tokenBudget: 16 });
    expect(split.metrics.entropyThreshold).toBe(whole.metrics.entropyThreshold);
    expect(split.rows).toEqual(whole.rows);
    const parts = await learnt(groups, { entropyQuantile: 0.3, minibatches: 4 });
    expect(parts.metrics.entropyThreshold).toBe(whole.metrics.entropyThreshold);
    const uncut = await learnt(groups, { entropyQuantile: 0.3, maskTruncated: true });
    expect(uncut.metrics.entropyThreshold).not.toBe(whole.metrics.entropyThreshold);
  });

  it("says no threshold where every conversation is masked, and there are no tokens to have one", async () => {
    const groups = (await sampled()).map((group) => ({
      ...group,
      trajectories: group.trajectories.map((one) => ({ ...one, ended: "max-tokens" as const })),
    }));
    const { tokens, rows, metrics } = await learnt(groups, { entropyQuantile: 0.3, maskTruncated: true });
    expect(metrics).not.toHaveProperty("entropyThreshold");
    expect(metrics.learnedConversations).toBe(0);
    expect([tokens.length, rows.size]).toEqual([0, 0]);
  });

  it("keeps everything at 1, and refuses 0", async () => {
    const groups = await sampled();
    expect((await learnt(groups, { entropyQuantile: 1 })).tokens).toEqual((await learnt(groups, {})).tokens);
    await expect(learnt(groups, { entropyQuantile: 0 })).rejects.toThrow(/entropyQuantile/);
  });

  it("asks the engine for entropies before the first rollout", async () => {
    const { agent, policy } = tableAgent();
    Object.assign(policy, { capabilities: { ...policy.capabilities, entropy: false } });
    const run = train({ ...quickRun, agent, reward, entropyQuantile: 0.2 });
    await expect(run).rejects.toThrow(/entropyQuantile needs the entropy/);
    expect(policy.calls.sample).toBe(0);
  });
});

describe("offPolicyMask", () => {
  const masked = (algorithm: Algorithm, threshold: number) =>
    objective({ algorithm, settings: { offPolicyMask: threshold } } as Learner, {
      klCoefficient: 0,
      klEstimator: "k3",
      entropyBonus: 0,
    });

  it.each(algorithmNames)("has the derivatives its value says (%s)", (name) => {
    const algorithm = createAlgorithm(name);
    const loss = masked(algorithm, 0.02);
    const check = checkGradient({ ...algorithm, loss }, { tolerance: 1e-6, batches: 2 });
    expect(check, JSON.stringify(check.worst)).toMatchObject({ ok: true });
  });

  it("takes the policy gradient of negative tokens away where the policy has left the conversation, and leaves the KL", () => {
    const micro = randomLossSequences({ seed: 5, drift: 0.6 }).map((own, i) => ({
      ...own,
      // One that was drawn from another distribution than the trainer's: the distance is to that one.
      ...(i === 0 && { sampled: own.old.map((logprob) => logprob + 5) }),
    }));
    const distance = micro.map(({ old, sampled = old, logprobs }: LossSequence) => {
      const differences = [...sampled].map((logprob, t) => logprob - logprobs[t]!);
      return differences.reduce((sum, one) => sum + one, 0) / differences.length;
    });
    const far = distance.map((one) => one > 0.1);
    expect([far[0], new Set(far).size]).toEqual([true, 2]);
    const plain = createAlgorithm({ algorithm: "grpo", correction: false });
    const { dLogprobs: free } = plain.loss(micro, countsOf(micro));
    const { dLogprobs: held, metrics } = masked(plain, 0.1)(micro, countsOf(micro));
    micro.forEach(({ advantages }, i) => {
      const expected = [...free[i]!].map((d, t) => (far[i] && advantages[t]! < 0 ? 0 : d));
      expect([...held[i]!].map((d) => d + 0)).toEqual(expected.map((d) => d + 0));
    });
    const touched = micro.filter(({ advantages }, i) => far[i] && advantages.some((a) => a < 0)).length;
    expect(meanMetrics(metrics).offPolicyMasked).toBeCloseTo(touched / micro.length, 12);
    const beta = { algorithm: "grpo", correction: false, beta: 0.1 } as const;
    const [withKl, klAlone] = [createAlgorithm(beta), createAlgorithm(beta)].map((algorithm, alone) => {
      const given = alone ? micro.map((own) => ({ ...own, advantages: own.advantages.map(() => 0) })) : micro;
      return masked(algorithm, 0.1)(given, countsOf(micro)).dLogprobs;
    });
    micro.forEach(({ advantages }, i) => {
      advantages.forEach((a, t) => {
        if (far[i] && a < 0) expect(withKl![i]![t]).toBe(klAlone![i]![t]);
      });
    });
  });

  it("does nothing in the first pass on the policy's own samples, and acts in later ones", async () => {
    const run = async (options: object) => {
      const { agent, policy } = tableAgent();
      const { run } = await train({ ...quickRun, agent, reward, steps: 4, learningRate: 0.5, ...options });
      const masks = run.metrics.map(({ offPolicyMasked }) => offPolicyMasked);
      return { masks, parameters: [...policy.parameters] };
    };
    const once = await run({ offPolicyMask: 0.1 });
    expect(once.masks).toEqual([0, 0, 0, 0]);
    expect(once.parameters).toEqual((await run({})).parameters);
    const passes = await run({ offPolicyMask: 0.1, updatesPerRollout: 4 });
    expect(Math.max(...(passes.masks as number[]))).toBeGreaterThan(0);
    expect(passes.parameters).not.toEqual((await run({ updatesPerRollout: 4 })).parameters);
  });
});
