/** The coefficient of the run's own KL penalty, where it follows the KL. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { algorithmNames } from "../algorithm/algorithms.ts";
import { FunctionReward, politeShare, quickRun, tableAgent } from "../test-support/table-training.ts";
import { resolveConfig } from "./config.ts";
import { train } from "./train.ts";

const root = mkdtempSync(join(tmpdir(), "adaptive-kl-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const reward = new FunctionReward(politeShare);
const run = { ...quickRun, steps: 4, groupsPerStep: 2, groupSize: 4, reward };

describe("kl.adapt", () => {
  it.each(algorithmNames)(
    "multiplies by 1 + clip(kl / target − 1, ±0.2)·n / horizon after each step (%s)",
    async (name) => {
      const kl = { coefficient: 0.1, adapt: { target: 0.05, horizon: 20 } };
      const { run: done } = await train({ ...run, kl, agent: tableAgent().agent, algorithm: name } as never);
      let coefficient = 0.1;
      for (const metrics of done.metrics) {
        expect(metrics.klCoefficient).toBeCloseTo(coefficient, 12);
        const error = Math.max(-0.2, Math.min(0.2, metrics.kl! / 0.05 - 1));
        coefficient *= 1 + (error * metrics.learnedConversations!) / 20;
      }
      // On policy the first KL is 0: the penalty is let go of by the most a step may.
      expect(done.metrics[0]!.kl).toBe(0);
      expect(done.metrics[1]!.klCoefficient).toBeCloseTo(
        0.1 * (1 - (0.2 * done.metrics[0]!.learnedConversations!) / 20),
        12,
      );
    },
  );

  it("rises where the policy is further off than the target, and holds it nearer than a fixed one", async () => {
    const of = async (adapt: object | undefined) => {
      const kl = { coefficient: 0.05, ...(adapt && { adapt: adapt as never }) };
      const { run: done } = await train({ ...run, steps: 12, kl, agent: tableAgent().agent });
      return done.metrics;
    };
    const held = await of({ target: 0.001, horizon: 4 });
    const fixed = await of(undefined);
    expect(held.at(-1)!.klCoefficient).toBeGreaterThan(0.05);
    expect(fixed.at(-1)!.klCoefficient).toBe(0.05);
    expect(held.at(-1)!.kl).toBeLessThan(fixed.at(-1)!.kl!);
  });

  it("moves by a fifth at most in one step, however many conversations it learns from", async () => {
    const kl = { coefficient: 0.1, adapt: { target: 0.05, horizon: 1 } };
    const { run: done } = await train({ ...run, kl, agent: tableAgent().agent });
    // On policy the first KL is 0. With n / horizon unbounded the coefficient was negative from here on, and the penalty gone.
    expect(done.metrics[0]!.learnedConversations).toBeGreaterThan(5);
    expect(done.metrics[1]!.klCoefficient).toBeCloseTo(0.08, 12);
    for (const { kl, klCoefficient } of done.metrics) {
      expect(klCoefficient).toBeGreaterThan(0);
      expect(kl).toSatisfy(Number.isFinite);
    }
  });

  it("is kept in checkpoints: a resumed run ends in the same weights as one that went through", async () => {
    const kl = { coefficient: 0.2, adapt: { target: 0.01, horizon: 16 } };
    const through = tableAgent();
    const options = { ...run, steps: 6, kl, algorithm: "sapo", checkpoint: { every: 3 } } as const;
    const whole = await train({ ...options, agent: through.agent, dir: join(root, "whole") });
    const dir = join(root, "halves");
    const stop = {
      onStepEnd: ({ step, stop }: { step: number; stop: (why: string) => void }) => step === 3 && stop("half"),
    };
    await train({ ...options, agent: tableAgent().agent, dir, callbacks: stop as never });
    const resumed = tableAgent();
    const rest = await train({ ...options, agent: resumed.agent, dir: undefined, resumeFrom: dir });
    expect(resumed.policy.parameters).toEqual(through.policy.parameters);
    expect(rest.run.metrics).toEqual(whole.run.metrics);
    expect(new Set(whole.run.metrics.map(({ klCoefficient }) => klCoefficient)).size).toBe(6);
  });

  it("refuses to multiply nothing", () => {
    expect(() => resolveConfig({ kl: { adapt: { target: 0.1 } } })).toThrow(/kl\.adapt.*above 0/);
    expect(resolveConfig({ kl: { coefficient: 0.1, adapt: { target: 0.1 } } }).kl.adapt).toEqual({
      target: 0.1,
      horizon: 10_000,
    });
  });
});
