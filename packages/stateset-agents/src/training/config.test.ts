import { describe, expect, it } from "vitest";
import { learningRateAt, learningRateFor } from "../learning/optimiser.ts";
import { resolveConfig, type TrainingOptions } from "./config.ts";
import { configForTask, profileNames } from "./profiles.ts";

describe("resolveConfig", () => {
  it("fills in every number", () => {
    const config = resolveConfig({}, { model: { parameters: 11_700_000 } });
    expect(config).toMatchObject({
      steps: 100,
      groupSize: 8,
      learningRate: 3e-4,
      valueLearningRate: 3e-4,
      profile: "balanced",
    });
    expect(config.evaluation).toEqual({ every: 10, samples: 4, selectionShare: 0.5, restoreBest: true });
  });

  it("lets the user's options win over the profile's, also inside sections", () => {
    const config = resolveConfig({ kl: { estimator: "k2" }, clipNorm: 2 }, { profile: "conservative" });
    expect(config.kl).toEqual({ coefficient: 0.05, estimator: "k2", reference: "start", renewEvery: 0 });
    expect(config.clipNorm).toBe(2);
    expect(config.warmup).toBe(0.1);
  });

  it("has profiles that grow bolder", () => {
    const rates = profileNames.map(
      (profile) => resolveConfig({}, { profile, model: { parameters: 1e7 } }).learningRate,
    );
    expect(rates).toEqual([...rates].sort((a, b) => a - b));
  });

  it("chooses larger rates for small models and for adapters", () => {
    const lora = { rank: 8, alpha: 16, dropout: 0, targetModules: "all-linear" } as const;
    const sizes = [1e7, 5e8, 7e9];
    expect(sizes.map((parameters) => learningRateFor({ parameters }))).toEqual([3e-4, 2e-5, 5e-6]);
    expect(sizes.map((parameters) => learningRateFor({ parameters, lora }))).toEqual([1e-3, 2e-4, 5e-5]);
  });

  it("evaluates a larger model with one conversation a scenario, unless told otherwise", () => {
    const samples = (parameters: number, evaluation = {}) =>
      resolveConfig({ evaluation }, { model: { parameters } }).evaluation.samples;
    expect([samples(11_700_000), samples(134_515_008), samples(134_515_008, { samples: 3 })]).toEqual([4, 1, 3]);
  });

  it("does not take a clip range for AdamW's epsilon", () => {
    expect(() => resolveConfig({ epsilon: 0.2 })).toThrow(/epsilonLow and epsilonHigh/);
  });

  it("does not take a share of the rate for a rate", () => {
    const given = { finalLearningRate: 1e-5 } as TrainingOptions;
    expect(() => resolveConfig(given)).toThrow(/"finalLearningRate".*"finalLearningRateShare"/);
  });

  it("refuses a step that no memory holds", () => {
    expect(() => resolveConfig({ groupsPerStep: 10_000_000, groupSize: 10 })).toThrow(/100000000 conversations/);
    expect(resolveConfig({ groupsPerStep: 100_000, groupSize: 10, steps: 100 }).steps).toBe(100);
  });

  it("turns episodes into steps", () => {
    expect(resolveConfig({ episodes: 100, groupsPerStep: 2, groupSize: 4, accumulation: 2 }).steps).toBe(7);
  });

  it("knows tasks in either spelling, and suggests the nearest for others", () => {
    expect(configForTask("customer_service")).toEqual(configForTask("customerService"));
    expect(configForTask("sales", { groupSize: 4 })).toMatchObject({ groupSize: 4, maxTurns: 10 });
    expect(() => configForTask("custmer_service")).toThrow(/customer_service/);
  });

  it("gives tools large groups and one pass over them", () => {
    const tools = resolveConfig(configForTask("tools"));
    expect(tools).toMatchObject({ groupSize: 16, groupsPerStep: 8, updatesPerRollout: 1, maxTurns: 12 });
    expect(tools.sampling.maxTokens).toBe(128);
  });
});

describe("learningRateAt", () => {
  const config = { steps: 20, learningRate: 1, warmup: 0.2, finalLearningRateShare: 0.1 };
  it.each(["linear", "cosine"] as const)("rises over the warm-up and falls to its end (%s)", (schedule) => {
    const rates = Array.from({ length: 20 }, (_, i) => learningRateAt(i + 1, { ...config, schedule }));
    expect(rates.slice(0, 4)).toEqual([0.2, 0.4, 0.6, 0.8]);
    expect(rates[4]).toBe(1);
    expect(rates[19]).toBeCloseTo(0.1, 12);
    for (let i = 5; i < 20; i++) expect(rates[i]).toBeLessThan(rates[i - 1]!);
  });
  it("stays where it is when constant", () => {
    expect(learningRateAt(17, { ...config, schedule: "constant" })).toBe(1);
  });
});
