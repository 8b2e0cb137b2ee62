import { afterEach, beforeEach, describe, expect, expectTypeOf, it, type MockInstance, vi } from "vitest";
import { RewardFunction } from "../index.ts";
import * as algorithms from "./algorithms.ts";
import * as compat from "./compat.ts";
import * as policy from "./policy.ts";
import * as rewards from "./rewards.ts";
import * as telemetry from "./telemetry.ts";
import * as testing from "./testing.ts";

const turns = [{ role: "assistant" as const, content: "Paris" }];

describe("names that moved", () => {
  let warn: MockInstance<typeof process.emitWarning>;
  beforeEach(() => {
    warn = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  });
  afterEach(() => warn.mockRestore());

  it("warn once each, when first used, and say where they are now", () => {
    const exact = new compat.ExactMatchReward();
    new compat.ExactMatchReward();
    compat.isPolite("please");
    compat.isPolite("please");
    expect(compat.defaultSampling.temperature).toBe(policy.defaultSampling.temperature);
    expect(exact).toBeInstanceOf(rewards.ExactMatchReward);
    expect(warn.mock.calls.map(([message]) => String(message).split(". ")[0])).toEqual([
      '"ExactMatchReward" has moved: import it from "stateset-agents/rewards"',
      '"isPolite" has moved: import it from "stateset-agents/rewards"',
      '"defaultSampling" has moved: import it from "stateset-agents/policy"',
    ]);
    expect(warn.mock.calls[0]![1]).toEqual({ type: "DeprecationWarning", code: "STATESET_MOVED" });
  });

  it("are silent while nobody uses them", () => {
    expect(Object.keys(compat).length).toBeGreaterThan(100);
    expect(warn).not.toHaveBeenCalled();
  });

  it("work as before: calls, constructors, subclasses, instances, schemas, lists", async () => {
    expect(compat.algorithmNames).toContain("grpo");
    expect(compat.algorithmNames.map((name) => name)).toEqual(algorithms.algorithmNames);
    expect(Object.keys(compat.profiles)).toEqual(Object.keys(algorithms.profiles));
    expect(compat.algorithmSchema.parse({ algorithm: "grpo" })).toEqual(
      algorithms.algorithmSchema.parse({ algorithm: "grpo" }),
    );
    expect(compat.createAlgorithm("grpo").name).toBe("grpo");
    class Shouting extends compat.PatternReward {}
    const reward = new Shouting({ pattern: /Paris/ });
    expect(reward).toBeInstanceOf(rewards.PatternReward);
    expect(reward).toBeInstanceOf(compat.PatternReward);
    expect(reward).toBeInstanceOf(RewardFunction);
    expect((await reward.compute({ turns })).score).toBe(1);
    expect(new telemetry.DiagnosticsMonitor()).toBeInstanceOf(compat.DiagnosticsMonitor);
    expect(compat.createStubPolicy().model.stub).toBe(testing.createStubPolicy().model.stub);
  });

  it("keep their types", () => {
    expectTypeOf<compat.PatternReward>().toEqualTypeOf<rewards.PatternReward>();
    expectTypeOf(compat.openPolicy).toEqualTypeOf(policy.openPolicy);
    expectTypeOf<compat.StepOptions>().toEqualTypeOf<policy.StepOptions>();
  });

  it("leave the names of the Python system and those of the main door alone", () => {
    expect(compat.RewardFunction).toBe(RewardFunction);
    expect(compat.GSPOConfig.fromTrainingConfig({ steps: 3 })).toMatchObject({ algorithm: "gspo", steps: 3 });
    expect(compat.fromPythonConfig({ num_generations: 4 }).training).toEqual({ groupSize: 4 });
    expect(compat.trainWithGSPO.name).toBe("trainWithGSPO");
    expect(compat.MultiTurnGRPOTrainer.name).toBe("MultiTurnGRPOTrainer");
    expect(warn).not.toHaveBeenCalled();
  });
});
