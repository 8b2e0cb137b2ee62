import { describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { type FakeConversation, fakeGroup } from "../test-support/fake-group.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { FunctionReward, politeShare, tableEnvironment } from "../test-support/table-training.ts";
import { type AutoAdjust, autoAdjust } from "./auto-adjust.ts";
import type { TrainingStepEnd } from "./callbacks.ts";
import type { TrainingControls } from "./controls.ts";
import { train } from "./train.ts";

const fresh = (): TrainingControls => ({
  learningRateScale: 1,
  klCoefficient: 0,
  entropyBonus: 0,
  temperature: 1,
  scenarioWeights: {},
});

function show(
  adjuster: AutoAdjust,
  controls: TrainingControls,
  step: number,
  scenarios: Record<string, FakeConversation[]>,
  metrics: Record<string, number> = {},
): void {
  const groups = Object.entries(scenarios).map(([id, conversations]) => fakeGroup(id, conversations));
  adjuster.onStepEnd!({
    step,
    metrics: { step, ...metrics },
    vocabulary: 8192,
    groups,
    controls,
    tell: async () => {},
  } as unknown as TrainingStepEnd);
}

const sampled = (surprise: number): FakeConversation[] => [0.2, 0.4, 0.6, 0.5].map((reward) => ({ reward, surprise }));
/** Certain of one middling reward in two of three scenarios: a collapse from step 5 on. */
const falling = (step: number): Record<string, FakeConversation[]> => {
  const stuck = step < 3 ? sampled(1.6) : Array(4).fill({ reward: 0.4, surprise: 0.1 });
  return { a: stuck, b: stuck, c: sampled(step < 3 ? 1.6 : 0.1) };
};

describe("autoAdjust", () => {
  it("refuses what is no object of options, and options it does not know", () => {
    expect(() => autoAdjust(true as never)).toThrow(/Invalid value for autoAdjust: .*boolean/);
    expect(() => autoAdjust({ coldown: 2 } as never)).toThrow(/"coldown" in autoAdjust.*"cooldown"/);
    expect(() => autoAdjust({ diagnostics: { windows: 2 } as never })).toThrow(/Unknown option "windows"/);
  });

  it("leaves a healthy run alone", () => {
    const adjuster = autoAdjust();
    const controls = fresh();
    for (let step = 1; step <= 20; step++) show(adjuster, controls, step, { a: sampled(1.5) });
    expect(controls).toEqual(fresh());
    expect(adjuster.adjustments).toEqual([]);
  });

  it("answers a collapse with a lower rate, a KL leash and a higher temperature, and says why", () => {
    const adjuster = autoAdjust();
    const controls = fresh();
    for (let step = 1; step <= 5; step++) show(adjuster, controls, step, falling(step));
    expect(controls.learningRateScale).toBeCloseTo(0.3);
    expect(controls.klCoefficient).toBe(0.05);
    expect(controls.temperature).toBeCloseTo(1.1);
    expect(adjuster.adjustments).toHaveLength(3);
    expect(adjuster.adjustments[0]).toMatchObject({ step: 5, setting: "learningRateScale", from: 1 });
    expect(adjuster.adjustments[0]!.reason).toBe(
      "The policy is collapsing: entropy fell from 1.60 to 0.10 nats per token, and the reward is not the better for it.",
    );
  });

  it("waits for an action to work before the next one, and stays within its limits", () => {
    const adjuster = autoAdjust({ cooldown: 4, minLearningRateScale: 0.2, maxTemperature: 1.15 });
    const controls = fresh();
    for (let step = 1; step <= 30; step++) show(adjuster, controls, step, falling(step));
    const rates = adjuster.adjustments.filter(({ setting }) => setting === "learningRateScale");
    expect(rates.map(({ step }) => step)).toEqual([5, 9]);
    expect(controls.learningRateScale).toBe(0.2);
    expect(controls.klCoefficient).toBe(2);
    expect(controls.temperature).toBeCloseTo(1.15);
  });

  it("holds a run that games its reward with a strong leash, and gives it time once it comes back", () => {
    const adjuster = autoAdjust();
    const controls = fresh();
    const loop = (times: number) =>
      "thank you please ".repeat(times) + Array.from({ length: 30 }, (_, i) => `word${i}`).join(" ");
    const chant = (times: number): FakeConversation[] =>
      [0.8, 0.9, 0.85, 0.95].map((reward, i) => ({ reward, text: `own${i} ${loop(times)}` }));
    for (let step = 1; step <= 3; step++) show(adjuster, controls, step, { a: sampled(1.5) });
    for (let step = 4; step <= 6; step++) show(adjuster, controls, step, { a: chant(40) });
    expect(controls).toMatchObject({ klCoefficient: 0.5, learningRateScale: 1 });
    // Less repetitive than at the last action: no further push.
    for (let step = 7; step <= 9; step++) show(adjuster, controls, step, { a: chant(12) });
    expect(controls.klCoefficient).toBe(0.5);
    // But when it stays there, the leash tightens.
    for (let step = 10; step <= 12; step++) show(adjuster, controls, step, { a: chant(12) });
    expect(controls.klCoefficient).toBe(1);
  });

  it("draws a scenario that is too easy less often, until it varies again", () => {
    const adjuster = autoAdjust();
    const controls = fresh();
    const easy = Array(4).fill({ reward: 1 });
    for (let step = 1; step <= 3; step++) show(adjuster, controls, step, { easy, fine: sampled(1) });
    expect(controls.scenarioWeights).toEqual({ easy: 0.5 });
    show(adjuster, controls, 4, { easy: sampled(1), fine: sampled(1) });
    // Nothing is left of it, so that scenarios come in rounds again.
    expect(controls.scenarioWeights).toEqual({});
    expect(adjuster.adjustments.at(-1)?.reason).toBe('Scenario "easy" has differing rewards again.');
  });

  it("takes a leap out of the learning rate by how far it went, at once", () => {
    const adjuster = autoAdjust();
    const controls = fresh();
    show(adjuster, controls, 1, { a: sampled(1.5) }, { approxKl: 8 });
    expect(controls.learningRateScale).toBeCloseTo(Math.sqrt(0.02 / 8));
    expect(controls.klCoefficient).toBe(0.5);
    // Large steps on the way back to the reference are what was asked for; away from it they are not.
    show(adjuster, controls, 2, { a: sampled(1.5) }, { approxKl: 2, kl: 30 });
    expect(adjuster.adjustments).toHaveLength(2);
    for (const [step, kl] of [
      [3, 30],
      [4, 31],
      [5, 40],
    ] as const) {
      show(adjuster, controls, step, { a: sampled(1.5) }, { approxKl: 2, kl });
    }
    expect(controls.learningRateScale).toBe(1 / 64);
  });

  it("takes a leap back, so that the weights are those before it, and goes on slower", async () => {
    const last = async (learningRate: number, callbacks: AutoAdjust | undefined) => {
      const policy = createTablePolicy({ seed: 3, spread: 1 });
      const agent = new MultiTurnAgent({ policy, sampling: { maxTokens: 6 } });
      const before = [...policy.parameters];
      const options = { warmup: 0, schedule: "constant", dir: false, steps: 1, learningRate } as const;
      const { run } = await train({
        ...options,
        agent,
        environment: tableEnvironment(),
        reward: new FunctionReward(politeShare),
        ...(callbacks && { callbacks }),
      });
      return {
        metrics: run.metrics[0]!,
        moved: Math.max(...policy.parameters.map((p, i) => Math.abs(p - before[i]!))),
      };
    };
    const adjuster = autoAdjust();
    const undone = await last(30, adjuster);
    expect(undone.metrics).toMatchObject({ undone: 1 });
    expect(undone.metrics.approxKl).toBeGreaterThan(1);
    expect(undone.moved).toBeLessThan(1e-5);
    expect(adjuster.adjustments.map(({ setting }) => setting)).toEqual(["learningRateScale"]);
    expect(adjuster.adjustments[0]!.reason).toMatch(/per token and was taken back/);
    expect((await last(30, undefined)).moved).toBeGreaterThan(1);
    const small = await last(0.01, autoAdjust());
    expect(small.metrics).not.toHaveProperty("undone");
    expect(small.moved).toBeGreaterThan(1e-3);
  });

  it("answers noise with a temperature of 1", () => {
    const adjuster = autoAdjust();
    const controls = { ...fresh(), temperature: 3 };
    show(adjuster, controls, 1, { a: sampled(8.2) });
    expect(controls).toEqual({ ...fresh(), temperature: 1 });
  });

  it("draws scenarios that were lost twice as often, slower and nearer to the reference, until they succeed again", () => {
    const adjuster = autoAdjust();
    const controls = fresh();
    const mixed = [1, 0, 1, 0].map((reward) => ({ reward }));
    const failed = Array.from({ length: 4 }, () => ({ reward: 0 }));
    for (let step = 1; step <= 7; step++)
      show(adjuster, controls, step, { fine: mixed, lost: step < 5 ? mixed : failed });
    expect(controls).toMatchObject({ learningRateScale: 0.5, klCoefficient: 0.05, scenarioWeights: { lost: 2 } });
    show(adjuster, controls, 8, { fine: mixed, lost: mixed });
    expect(controls.scenarioWeights).toEqual({});
  });

  it("passes over a step without conversations", () => {
    const adjuster = autoAdjust();
    const controls = fresh();
    for (let step = 1; step <= 5; step++) show(adjuster, controls, step, step < 3 ? {} : { a: sampled(1.5) });
    expect(controls).toEqual(fresh());
  });

  it("has the KL estimated by k2, which pulls back from afar, unless another is asked for", async () => {
    const estimator = async (options: object) => {
      const agent = new MultiTurnAgent({ policy: createTablePolicy(), sampling: { maxTokens: 4 } });
      const reward = new FunctionReward(() => 1);
      const { run } = await train({ agent, environment: tableEnvironment(), reward, dir: false, steps: 1, ...options });
      return run.config.kl.estimator;
    };
    expect(await estimator({ callbacks: autoAdjust() })).toBe("k2");
    expect(await estimator({ callbacks: autoAdjust(), profile: "conservative" })).toBe("k2");
    expect(await estimator({ callbacks: autoAdjust(), kl: { estimator: "k3" } })).toBe("k3");
    expect(await estimator({})).toBe("k3");
  });

  it("starts from the agent's own temperature", async () => {
    const agent = new MultiTurnAgent({ policy: createTablePolicy(), sampling: { temperature: 0.8, maxTokens: 4 } });
    const adjuster = autoAdjust();
    await train({
      agent,
      environment: tableEnvironment(),
      reward: new FunctionReward(() => 1),
      callbacks: adjuster,
      dir: false,
      steps: 6,
    });
    const [first] = adjuster.adjustments.filter(({ setting }) => setting === "temperature");
    expect(first?.from).toBe(0.8);
    expect(first?.to).toBeCloseTo(0.88);
  });

  it("makes the same decisions after a resume", () => {
    const whole = autoAdjust();
    const wholeControls = fresh();
    for (let step = 1; step <= 12; step++) show(whole, wholeControls, step, falling(step));

    const first = autoAdjust();
    const controls = fresh();
    for (let step = 1; step <= 5; step++) show(first, controls, step, falling(step));
    const second = autoAdjust();
    second.restore!(JSON.parse(JSON.stringify(first.state!())));
    for (let step = 6; step <= 12; step++) show(second, controls, step, falling(step));
    expect(second.adjustments).toEqual(whole.adjustments);
    expect(controls).toEqual(wholeControls);
  });

  it("names a misspelt option", () => {
    expect(() => autoAdjust({ cooldwn: 2 } as object)).toThrow('Did you mean "cooldown"?');
  });
});
