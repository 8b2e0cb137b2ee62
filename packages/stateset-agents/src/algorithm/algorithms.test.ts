import { describe, expect, it } from "vitest";
import { StatesetError } from "../error.ts";
import {
  type AlgorithmConfig,
  algorithmDefaults,
  algorithmNames,
  algorithmSchema,
  createAlgorithm,
  defaultGroupSize,
  optionNames,
  resolveAlgorithm,
  splitAlgorithmConfig,
} from "./algorithms.ts";
import { GSPOConfig } from "./gspo-config.ts";
import { countsOf, randomSequences, withPolicy } from "./random-batch.ts";

const failure = (run: () => unknown): StatesetError => {
  try {
    run();
  } catch (error) {
    if (StatesetError.isInstance(error)) return error;
    throw error;
  }
  throw new Error("did not throw");
};

describe("createAlgorithm", () => {
  it("makes every algorithm from its name alone, with all defaults in its options", () => {
    expect(algorithmNames).toHaveLength(18);
    for (const name of algorithmNames) {
      const algorithm = createAlgorithm(name);
      expect(algorithm.name).toBe(name);
      expect(algorithm.options).toEqual(algorithmDefaults(name));
      expect(algorithmSchema.parse({ algorithm: name })).toMatchObject({ algorithm: name });
      expect(defaultGroupSize(name)).toBeGreaterThanOrEqual(2);
    }
  });

  it("has the documented defaults", () => {
    expect(algorithmDefaults("grpo")).toMatchObject({ epsilonLow: 0.2, epsilonHigh: 0.2, beta: 0, scale: "group" });
    expect(algorithmDefaults("dr-grpo")).toMatchObject({ scale: "none" });
    expect(algorithmDefaults("dapo")).toMatchObject({
      epsilonLow: 0.2,
      epsilonHigh: 0.28,
      beta: 0,
      dynamicSampling: true,
    });
    expect(algorithmDefaults("gspo")).toMatchObject({ epsilonLow: 3e-4, epsilonHigh: 4e-4, beta: 0 });
    expect(algorithmDefaults("cispo")).toMatchObject({ ratioCap: 5 });
    expect(algorithmDefaults("sapo")).toMatchObject({ tauPositive: 1, tauNegative: 1.05, beta: 0 });
    expect(algorithmDefaults("gmpo")).toMatchObject({ epsilonLow: 0.4, epsilonHigh: 0.4, beta: 0 });
    expect(algorithmDefaults("luspo")).toMatchObject({ epsilonLow: 2e-3, epsilonHigh: 2.5e-3, beta: 0 });
    expect(algorithmDefaults("ppo")).toMatchObject({
      gamma: 1,
      lambda: 1,
      valueCoefficient: 0.1,
      valueClip: 0.2,
      beta: 0.01,
      klIn: "reward",
      whiten: true,
    });
    expect(algorithmDefaults("vapo")).toMatchObject({
      epsilonHigh: 0.28,
      lengthAlpha: 0.05,
      lambdaFloor: 0.999,
      positiveCoefficient: 0.1,
    });
    expect(algorithmDefaults("a2c")).toMatchObject({
      lambda: 1,
      valueCoefficient: 0.5,
      entropyCoefficient: 0.01,
      whiten: true,
    });
    expect(createAlgorithm("trpo").trustRegion).toMatchObject({
      maxKl: 0.01,
      cgSteps: 10,
      damping: 0.1,
      backtracks: 10,
      backtrackRatio: 0.8,
    });
    expect(algorithmDefaults("reinforce++")).toMatchObject({ beta: 0.01, gamma: 1 });
    expect([defaultGroupSize("gspo"), defaultGroupSize("gepo"), defaultGroupSize("my own")]).toEqual([4, 8, 8]);
    expect(resolveAlgorithm({ algorithm: "ppo", level: "turn" })).toMatchObject({ gamma: 0.99 });
  });

  it("refuses an option of another algorithm and names who has it", () => {
    // @ts-expect-error dynamicSampling is DAPO's
    const config: AlgorithmConfig = { algorithm: "grpo", dynamicSampling: true };
    const error = failure(() => createAlgorithm(config));
    expect(error.code).toBe("INVALID_OPTION");
    expect(error.message).toContain('"dynamicSampling" is not an option of the algorithm "grpo". It belongs to dapo;');
    // @ts-expect-error lambda belongs to the algorithms with values
    expect(failure(() => createAlgorithm({ algorithm: "gspo", lambda: 1 })).message).toContain("ppo, a2c");
    expect(createAlgorithm({ algorithm: "dapo", dynamicSampling: true }).name).toBe("dapo");
  });

  it("suggests the nearest name for typos in algorithm and option", () => {
    expect(failure(() => createAlgorithm("gppo" as never)).message).toContain("Did you mean");
    expect(failure(() => createAlgorithm({ algorithm: "grpo", epsilonHihg: 1 } as never)).message).toContain(
      'Did you mean "epsilonHigh"?',
    );
    expect(failure(() => createAlgorithm({} as never)).message).toContain("Valid: grpo");
    expect(failure(() => createAlgorithm("DPO" as never)).message).toContain('trainPreference({ loss: "dpo" })');
    expect(failure(() => createAlgorithm({ algorithm: "grpo", beta: -1 })).message).toContain(".beta");
  });

  it("refuses options that would silence each other", () => {
    const weights = { rewardWeights: { correct: 1 } };
    expect(failure(() => createAlgorithm({ algorithm: "grpo", ...weights, credit: "turn" })).message).toContain(
      "exclude",
    );
    expect(
      failure(() => createAlgorithm({ algorithm: "grpo", ...weights, beta: 0.1, klIn: "reward" })).message,
    ).toContain('klIn: "loss"');
    expect(failure(() => createAlgorithm({ algorithm: "a2c", nSteps: 3, level: "turn" })).message).toContain("nSteps");
    expect(failure(() => createAlgorithm({ algorithm: "a2c", nSteps: 3, lambda: 0.9 })).message).toContain("lambda");
    expect(failure(() => createAlgorithm({ algorithm: "ppo", targetKl: 0.1, beta: 0 })).message).toContain("above 0");
    expect(
      failure(() => createAlgorithm({ algorithm: "grpo", correction: { mode: "mask", low: 5, high: 0.5 } })).message,
    ).toContain("low must be below high");
  });

  it("says what it needs", () => {
    expect(createAlgorithm("grpo").needs).toEqual({ reference: false, entropy: false, values: false });
    expect(createAlgorithm({ algorithm: "grpo", beta: 0.1 }).needs.reference).toBe(true);
    expect(createAlgorithm("ppo").needs).toEqual({ reference: true, entropy: false, values: true });
    expect(createAlgorithm("a2c").needs).toEqual({ reference: false, entropy: true, values: true });
    expect(createAlgorithm("grpo").usesZeroAdvantages).toBe(false);
    expect(createAlgorithm({ algorithm: "grpo", beta: 0.1 }).usesZeroAdvantages).toBe(true);
    expect(createAlgorithm({ algorithm: "grpo", beta: 0.1, klIn: "reward" }).usesZeroAdvantages).toBe(false);
  });

  it("reads every option: changing any one of them changes advantages, loss or behaviour", () => {
    const changed: Record<string, unknown> = {
      epsilonLow: 0.01,
      epsilonHigh: 0.01,
      dualClip: 1.1,
      beta: 0.3,
      entropyCoefficient: 0.2,
      scale: "batch",
      rewardWeights: { correct: 1, style: 3 },
      credit: "turn",
      stateWeight: 3,
      stateDiscount: 0.5,
      correction: false,
      dynamicSampling: false,
      maxSamplingRounds: 3,
      overlongPenalty: 0.5,
      overlongBuffer: 0.7,
      ratioCap: 0.9,
      tauPositive: 3,
      tauNegative: 3,
      targetKl: 0.1,
      level: "turn",
      gamma: 0.5,
      lambda: 0.1,
      whiten: "flip",
      bootstrap: true,
      valueCoefficient: 0.9,
      valueClip: null,
      lengthAlpha: 100,
      lambdaFloor: 0.2,
      positiveCoefficient: 2,
      successThreshold: 0.05,
      valueWarmupSteps: 7,
      nSteps: 1,
      maxKl: 0.5,
      cgSteps: 2,
      damping: 0.5,
      backtracks: 2,
      backtrackRatio: 0.1,
      baseline: "group",
    };
    const fingerprint = (config: Record<string, unknown>) => {
      const algorithm = createAlgorithm(config as AlgorithmConfig);
      const sequences = randomSequences({ seed: 3, maxTokens: 12 }).map((sequence) => ({
        ...sequence,
        sampled: sequence.old.map((x, t) => x + (t % 2 ? 1 : -1)),
      }));
      Object.assign(sequences[0]!, { truncated: true, endValue: 2 });
      const advantages = algorithm.advantages(sequences);
      const micro = withPolicy(
        sequences.map((sequence, i) => ({ ...sequence, ...advantages[i]! })),
        { seed: 3, drift: 1 },
      );
      const { loss, dLogprobs } = algorithm.loss(micro, countsOf(sequences));
      algorithm.afterUpdate?.({ kl: 5 });
      const { kl: _, ...region } = algorithm.trustRegion ?? { kl: undefined };
      return JSON.stringify([
        loss,
        dLogprobs.map((own) => [...own]),
        advantages.map((own) => [...own.advantages]),
        sequences.map((sequence) => algorithm.shapeReward?.(sequence, 9)),
        algorithm.keepGroup === undefined,
        algorithm.maxSamplingRounds,
        algorithm.valueWarmupSteps,
        algorithm.state?.(),
        region,
      ]);
    };
    for (const name of algorithmNames) {
      // A base in which nothing masks anything else: KL on, so that its kind and place matter.
      const base: Record<string, unknown> = { algorithm: name };
      const own = optionNames(name);
      if (own.includes("beta")) base.beta = 0.1;
      for (const option of own) {
        if (option === "klEstimator" || option === "klIn" || option === "klHorizon") continue;
        const to = option === "whiten" ? !algorithmDefaults(name)[option as never] : changed[option];
        expect(to, `${option} has a value to try`).not.toBe(undefined);
        const start: Record<string, unknown> =
          option === "rewardWeights"
            ? { ...base, beta: 0 }
            : option.startsWith("state")
              ? { ...base, credit: "state" }
              : base;
        if (!own.includes("beta")) delete start.beta;
        expect(fingerprint({ ...start, [option]: to }), `${name}.${option}`).not.toBe(fingerprint(start));
      }
      if (own.includes("klIn")) {
        expect(fingerprint({ ...base, klIn: "loss" })).not.toBe(fingerprint({ ...base, klIn: "reward" }));
        expect(fingerprint({ ...base, klIn: "loss", klEstimator: "k2" })).not.toBe(
          fingerprint({ ...base, klIn: "loss" }),
        );
      }
    }
    const adaptive = { algorithm: "ppo", targetKl: 0.1 };
    expect(fingerprint({ ...adaptive, klHorizon: 5 })).not.toBe(fingerprint(adaptive));
  });
});

describe("splitAlgorithmConfig", () => {
  it("sends every algorithm's options to the algorithm, so that a stray one is refused", () => {
    const { algorithm, rest } = splitAlgorithmConfig({ algorithm: "grpo", steps: 3, lambda: 0.9, learningRate: 1 });
    expect(algorithm).toEqual({ algorithm: "grpo", lambda: 0.9 });
    expect(rest).toEqual({ steps: 3, learningRate: 1 });
    expect(() => resolveAlgorithm(algorithm)).toThrow(/It belongs to/);
  });
});

describe("GSPOConfig.fromTrainingConfig", () => {
  const base = {
    algorithm: "grpo",
    steps: 7,
    learningRate: 1e-5,
    groupSize: 16,
    epsilonLow: 0.2,
    epsilonHigh: 0.2,
    beta: 0.1,
  };

  it("keeps what is general and GSPO's own defaults, not another algorithm's clip, KL and group size", () => {
    expect(GSPOConfig.fromTrainingConfig(base)).toMatchObject({
      ...{ steps: 7, learningRate: 1e-5 },
      ...{ algorithm: "gspo", groupSize: 4, epsilonLow: 3e-4, epsilonHigh: 4e-4, beta: 0 },
    });
  });

  it("lets overrides win and refuses what is not GSPO's", () => {
    const config = GSPOConfig.fromTrainingConfig(base, { steps: 5, groupSize: 6, epsilonHigh: 5e-4 });
    expect(config).toMatchObject({ steps: 5, groupSize: 6, epsilonLow: 3e-4, epsilonHigh: 5e-4 });
    // @ts-expect-error That is an option of DAPO.
    expect(() => GSPOConfig.fromTrainingConfig(base, { dynamicSampling: true })).toThrow(/belongs to dapo/);
    // @ts-expect-error And this another algorithm.
    expect(() => GSPOConfig.fromTrainingConfig(base, { algorithm: "dapo" })).toThrow(/cannot run the algorithm "dapo"/);
  });

  it("makes GSPO-token's settings when asked to", () => {
    const config = GSPOConfig.fromTrainingConfig(base, { algorithm: "gspo-token", credit: "turn" });
    expect(config).toMatchObject({ algorithm: "gspo-token", credit: "turn", epsilonLow: 3e-4, groupSize: 4, steps: 7 });
  });
});
