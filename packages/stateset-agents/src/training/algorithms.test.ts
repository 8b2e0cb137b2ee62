import { describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { algorithmNames, createAlgorithm } from "../algorithm/algorithms.ts";
import { GSPOConfig } from "../algorithm/gspo-config.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { FunctionReward, politeShare, quickRun, gain as rise, tableAgent } from "../test-support/table-training.ts";
import type { TrainingStepEnd } from "./callbacks.ts";
import { trainWithGSPO } from "./gspo.ts";
import { configForTask } from "./profiles.ts";
import { train } from "./train.ts";

const mean = (values: number[]) => values.reduce((a, b) => a + b, 0) / values.length;
const settings = { ...quickRun, steps: 12, groupSize: 8 } as const;

async function gain(algorithm: string, sign: number) {
  const reward = new FunctionReward((turns) => sign * politeShare(turns));
  const { run } = await train({ ...settings, agent: tableAgent().agent, reward, algorithm } as never);
  const curve = run.metrics.map((metrics) => sign * metrics.reward!);
  return { gain: mean(curve.slice(-3)) - mean(curve.slice(0, 3)), metrics: run.metrics };
}

describe("every algorithm in the loop", { timeout: 300_000 }, () => {
  it.each(algorithmNames)("%s learns, and unlearns with the sign flipped", async (name) => {
    const up = await gain(name, 1);
    const down = await gain(name, -1);
    expect(up.gain).toBeGreaterThan(0.1);
    expect(down.gain).toBeLessThan(-0.05);
    for (const metrics of up.metrics) expect(metrics.firstRatioMax ?? 1).toBe(1);
  });

  it("refills groups that DAPO drops, and says how many", async () => {
    // Half of the scenarios always have the same reward.
    const reward = new FunctionReward((turns, { scenario }) =>
      Number(scenario!.id.at(-1)) < 2 ? 1 : politeShare(turns),
    );
    const dapo = { algorithm: "dapo", recall: false } as const;
    const { run } = await train({ ...settings, ...dapo, agent: tableAgent().agent, reward, steps: 3 });
    for (const metrics of run.metrics) {
      expect(metrics.refusedGroups).toBeGreaterThan(0);
      expect(metrics.samplingRounds).toBeGreaterThan(1);
      expect(metrics.conversations).toBe(32);
      expect(metrics.constantGroups).toBe(0);
    }
  });

  it("warms up VAPO's critic before the policy moves", async () => {
    const { agent, policy } = tableAgent();
    const before = Float32Array.from(policy.parameters);
    const size = policy.model.vocabSize ** 2;
    const reward = new FunctionReward(politeShare);
    const { run } = await train({ ...settings, agent, reward, steps: 4, algorithm: "vapo", valueWarmupSteps: 4 });
    expect(policy.parameters.slice(0, size)).toEqual(before.slice(0, size));
    expect(policy.parameters.slice(size)).not.toEqual(before.slice(size));
    expect(run.metrics.at(-1)!.valueLoss).toBeLessThan(run.metrics[0]!.valueLoss!);
  });

  it("warms it up for a tenth of the run, at most 50 steps, when it is not told for how long", async () => {
    const { valueWarmupSteps } = createAlgorithm("vapo");
    const steps = [1, 9, 15, 20, 100, 500, 5000].map(valueWarmupSteps as (steps: number) => number);
    expect(steps).toEqual([0, 0, 1, 2, 10, 50, 50]);
    const { agent, policy } = tableAgent();
    const size = policy.model.vocabSize ** 2;
    const before = policy.parameters.slice(0, size);
    const moved: boolean[] = [];
    await train({
      ...settings,
      agent,
      reward: new FunctionReward(politeShare),
      steps: 20,
      algorithm: "vapo",
      callbacks: {
        onStepEnd: ({ step, stop }) => {
          moved.push(policy.parameters.slice(0, size).some((value, i) => value !== before[i]));
          if (step === 3) stop("seen enough");
        },
      },
    });
    expect(moved).toEqual([false, false, true]);
  });

  it.each(["ppo", "a2c", "vapo", "reinforce", "reinforce++"] as const)(
    "%s learns from one conversation a scenario",
    async (name) => {
      const many = { groupSize: 1, groupsPerStep: 32, steps: 20 };
      const reward = new FunctionReward(politeShare);
      const { run } = await train({
        ...settings,
        ...many,
        agent: tableAgent().agent,
        reward,
        algorithm: name,
      } as never);
      const curve = run.metrics.map((metrics) => metrics.reward!);
      expect(mean(curve.slice(-3)) - mean(curve.slice(0, 3))).toBeGreaterThan(0.1);
      expect(run.metrics[0]!.constantGroups).toBeUndefined();
      expect(run.warnings).toEqual([]);
    },
  );

  it("refuses groups of one where conversations are compared inside a group", async () => {
    const reward = new FunctionReward(politeShare);
    const relative = algorithmNames.filter((name) => createAlgorithm(name).comparesGroups);
    expect(relative).toHaveLength(13);
    for (const algorithm of relative) {
      const run = train({ ...settings, agent: tableAgent().agent, reward, groupSize: 1, algorithm } as never);
      await expect(run).rejects.toThrow(/groupSize is 1. Set groupSize to 2 or more/);
    }
  });

  it("says before the first step when the policy would not move, or would move without a bound", async () => {
    const said = async (own: object) => {
      const reward = new FunctionReward(politeShare);
      const { run } = await train({ ...settings, agent: tableAgent().agent, reward, steps: 1, ...own });
      return run.warnings.filter(({ kind }) => kind === "options-unusual").map(({ message }) => message);
    };
    const still = [expect.stringContaining("the policy will not move")];
    expect(await said({ algorithm: "vapo", valueWarmupSteps: 1 })).toEqual(still);
    expect(await said({ algorithm: "vapo" })).toEqual([]);
    for (const algorithm of ["a2c", "reinforce"])
      expect(await said({ algorithm, updatesPerRollout: 2 })).toEqual([expect.stringContaining("without a bound")]);
    expect(await said({ algorithm: "grpo", updatesPerRollout: 2 })).toEqual([]);
  });

  it("says before the first step that an off-policy mask has nothing to act on, and only then", async () => {
    const said = async (own: object, sampling: object = {}) => {
      const reward = new FunctionReward(politeShare);
      const agent = new MultiTurnAgent({ policy: tableAgent().policy, sampling: { maxTokens: 6, ...sampling } });
      const { run } = await train({ ...settings, agent, reward, steps: 1, offPolicyMask: 0.1, ...own });
      return run.warnings.flatMap(({ kind, message }) => (kind === "options-unusual" ? [message] : []));
    };
    expect(await said({})).toEqual([expect.stringMatching(/offPolicyMask .*updatesPerRollout/)]);
    expect(await said({ accumulation: 2 })).toHaveLength(1);
    expect(await said({ updatesPerRollout: 2 })).toEqual([]);
    expect(await said({ minibatches: 2 })).toEqual([]);
    // Its line search measures the loss where the policy would be.
    expect(await said({ algorithm: "trpo" })).toEqual([]);
    expect(await said({}, { topP: 0.9 })).toEqual([]);
    expect(await said({ offPolicyMask: undefined })).toEqual([]);
  });

  it("keeps TRPO within its trust region", async () => {
    const { agent } = tableAgent();
    const { run } = await train({
      ...settings,
      agent,
      reward: new FunctionReward(politeShare),
      steps: 5,
      algorithm: "trpo",
      maxKl: 0.02,
    });
    for (const metrics of run.metrics) expect(metrics.trustRegionKl).toBeLessThanOrEqual(0.02);
    expect(mean(run.metrics.map((metrics) => metrics.trustRegionAccepted!))).toBeGreaterThan(0.5);
  });

  it("shortens TRPO's step when the learning rate is scaled down", async () => {
    const step = async (scale: number) => {
      const { agent } = tableAgent();
      const callbacks = {
        onStepEnd: ({ controls }: TrainingStepEnd) => {
          controls.learningRateScale = scale;
        },
      };
      const reward = new FunctionReward(politeShare);
      const { run } = await train({ ...settings, agent, reward, steps: 2, algorithm: "trpo", maxKl: 0.02, callbacks });
      expect(run.metrics[1]!.trustRegionBacktracks).toBe(0);
      return run.metrics[1]!.stepNorm!;
    };
    expect((await step(0.5)) / (await step(1))).toBeCloseTo(0.5, 6);
  });

  it.each(["grpo", "trpo"] as const)(
    "stays nearer to the reference with a KL penalty of the run: %s",
    async (algorithm) => {
      const drift = async (coefficient: number) => {
        const { agent, policy } = tableAgent();
        const before = Float32Array.from(policy.parameters);
        const reward = new FunctionReward(politeShare);
        const { run } = await train({ ...settings, agent, reward, algorithm, kl: { coefficient } });
        const distance = Math.hypot(...policy.parameters.map((value, i) => value - before[i]!));
        return { distance, kl: run.metrics.at(-1)!.kl };
      };
      const free = await drift(0);
      const held = await drift(1);
      expect(held.distance).toBeLessThan(free.distance);
      expect(free.kl).toBeUndefined();
      expect(held.kl).toBeGreaterThan(0);
    },
  );

  it.each(["grpo", "trpo"] as const)("keeps the entropy higher with a bonus: %s", async (algorithm) => {
    const last = async (entropyBonus: number) => {
      const { run } = await train({
        ...settings,
        algorithm,
        agent: tableAgent().agent,
        reward: new FunctionReward(politeShare),
        entropyBonus,
      });
      return run.metrics.at(-1)!.entropy!;
    };
    expect(await last(1)).toBeGreaterThan(await last(0));
  });

  it("corrects by itself for a sampler that is not the trainer, and says so where it is told not to", async () => {
    const once = async (shift: number, exact: boolean, own: object = {}) => {
      const { agent, policy } = tableAgent();
      const sample = policy.sample.bind(policy);
      // A server whose arithmetic makes every log-prob `shift` too low: w = exp(shift).
      policy.sample = async (...args) =>
        (await sample(...args)).map((s) => ({ ...s, logprobs: s.logprobs.map((logprob) => logprob - shift) }));
      Object.assign(policy, { capabilities: { ...policy.capabilities, exact } });
      const { run } = await train({ ...settings, ...own, agent, reward: new FunctionReward(politeShare), steps: 2 });
      return {
        metrics: run.metrics[0]!,
        parameters: policy.parameters,
        warnings: run.warnings.map(({ kind }) => kind),
      };
    };
    const corrected = await once(1, false);
    expect(corrected.metrics).toMatchObject({ firstRatioMax: 1, mismatchClipped: 1 });
    expect(corrected.metrics.mismatch).toBeCloseTo(1, 5);
    expect(corrected.warnings).toEqual([]);
    const told = await once(1, false, { correction: false });
    expect(told.warnings).toEqual(["sampling-mismatch"]);
    expect(told.metrics).toMatchObject({ firstRatioMax: 1 });
    expect(told.metrics.mismatch).toBeCloseTo(1, 5);
    // An engine that calls itself exact and is not is found out.
    const liar = await once(1, true);
    expect(liar.metrics.firstRatioMax).toBeCloseTo(Math.E, 4);
    expect(liar.warnings).toEqual(["first-ratio"]);
    const same = await once(0, false);
    expect(same.metrics).toMatchObject({ mismatch: 0, mismatchClipped: 0 });
    expect(same.parameters).toEqual((await once(0, true)).parameters);
  });

  it("learns from shaped samples with the correction, shows the mismatch, and warns without it", async () => {
    const shaped = async (own: object, sampling: object) => {
      const policy = createTablePolicy({ spread: 1 });
      const agent = new MultiTurnAgent({ policy, sampling: { maxTokens: 6, ...sampling } });
      const { run } = await train({ ...settings, ...own, agent, reward: new FunctionReward(politeShare), steps: 16 });
      return { run, rise: rise(run.metrics.map(({ reward }) => reward!)) };
    };
    const free = await shaped({}, {});
    expect(free.run.metrics[0]).not.toHaveProperty("mismatch");
    const corrected = await shaped({}, { topP: 0.7 });
    expect(corrected.run.warnings).toEqual([]);
    expect(corrected.run.metrics[0]).toMatchObject({ firstRatioMax: 1, mismatch: expect.any(Number) });
    expect(corrected.run.metrics[0]!.mismatch).toBeGreaterThan(0.05);
    expect(corrected.rise).toBeGreaterThan(0.5 * free.rise);
    const off = await shaped({ correction: false }, { topP: 0.7 });
    expect(off.run.warnings.map(({ kind }) => kind)).toEqual(["sampling-mismatch"]);
    expect(off.run.metrics[0]!.mismatch).toBe(corrected.run.metrics[0]!.mismatch);
  });

  it("asks what the engine can do before the first rollout, and refuses dropout", async () => {
    const ask = (own: object, capabilities: object) => {
      const { agent, policy } = tableAgent();
      Object.assign(policy, { capabilities: { ...policy.capabilities, ...capabilities } });
      const calls = () => policy.calls.sample;
      const result = train({ ...settings, ...own, agent, reward: new FunctionReward(politeShare), steps: 1 });
      return { result, calls };
    };
    for (const [own, capabilities, what] of [
      [{ algorithm: "ppo" }, { values: false }, /ppo needs a value head \(values\)/],
      [{ algorithm: "a2c" }, { entropy: false }, /a2c needs the entropy/],
      [{ entropyBonus: 0.1 }, { entropy: false }, /entropyBonus needs the entropy/],
      [{ algorithm: "trpo" }, { vectors: false }, /trpo moves along vectors/],
    ] as const) {
      const { result, calls } = ask(own, capabilities);
      await expect(result).rejects.toThrow(what);
      expect(calls()).toBe(0);
    }
    const { agent, policy } = tableAgent();
    const lora = { rank: 2, alpha: 2, dropout: 0.1, targetModules: "all-linear" } as const;
    Object.defineProperty(policy, "model", { value: { ...policy.model, lora } });
    const dropped = train({ ...settings, agent, reward: new FunctionReward(politeShare), steps: 1 });
    await expect(dropped).rejects.toThrow(/dropout of 0.1/);
  });

  it("runs GSPO by its own entry point with its own group size", async () => {
    const { agent } = tableAgent();
    const reward = new FunctionReward(politeShare);
    const { groupSize: _, ...rest } = settings;
    const { run } = await trainWithGSPO({ ...rest, agent, reward, steps: 1 });
    expect(run.config.groupSize).toBe(4);
    expect(run.metrics[0]!.conversations).toBe(16);
    const base = GSPOConfig.fromTrainingConfig(configForTask("sales"));
    const again = await trainWithGSPO({ ...rest, ...base, agent: tableAgent().agent, reward, steps: 1 });
    expect(again.run.config.groupSize).toBe(4);
    const byTurn = { algorithm: "gspo-token", credit: "turn" } as const;
    const tokens = await trainWithGSPO({ ...rest, ...byTurn, agent: tableAgent().agent, reward, steps: 1 });
    expect(tokens.run.status).toBe("finished");
    await expect(trainWithGSPO({ ...rest, agent, reward, algorithm: "dapo" } as never)).rejects.toThrow(
      /use train\(\)/,
    );
  });
});
