/** The conversations of a run's evaluations, as its folder holds them. */
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { evaluatedSteps, readEvaluation } from "../run/evaluation-conversations.ts";
import { readJsonLines } from "../run/log.ts";
import { trajectorySteps } from "../run/trajectories.ts";
import { hashesOf } from "../test-support/run-folder.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { train } from "./train.ts";
import type { TrainOptions } from "./train-options.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "evaluated-"));
});
afterEach(() => rmSync(root, { recursive: true }));

const held = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ id: `held-${i}`, userResponses: ["help card", "order no"] }));

/** Four steps, with evaluations on the way; the policy of the last step need not be the best. */
function given(options: Partial<TrainOptions> = {}): TrainOptions {
  return {
    ...{ learningRate: 0.3, schedule: "constant", warmup: 0, groupsPerStep: 2, groupSize: 4, steps: 4 },
    ...{ agent: tableAgent().agent, environment: tableEnvironment(), reward: new FunctionReward(politeShare) },
    ...{ heldOut: held(6), evaluation: { every: 2, samples: 2 }, checkpoint: { every: 2, keep: 9 } },
    ...{ dir: join(root, "run"), name: "run" },
    ...options,
  } as TrainOptions;
}

const setsOf = (dir: string) =>
  evaluatedSteps(dir).map((step) => [step, ...new Set(readEvaluation(dir, step).map(({ set }) => set))]);

describe("conversations of evaluations", { timeout: 60_000 }, () => {
  it("are written by set, with the rewards that the evaluation is the mean of, and are not learnt from", async () => {
    await train(given());
    const dir = join(root, "run");
    expect(setsOf(dir)).toEqual([
      [0, "selection", "report"],
      [2, "selection"],
      [4, "selection", "report"],
    ]);
    const lines = readJsonLines<{ step: number; set: string; scenario?: string; mean?: number; id?: string }>(
      join(dir, "evaluations.jsonl"),
    );
    expect(lines.length).toBeGreaterThan(0);
    for (const step of evaluatedSteps(dir)) {
      for (const record of readEvaluation(dir, step)) {
        expect(record).toMatchObject({ step, group: record.scenarioId, ended: expect.any(String) });
        expect(record.id).toMatch(new RegExp(`^${record.scenarioId}-m[01]$`));
        expect(record.chains.every(({ learnLength }) => learnLength === 0)).toBe(true);
        expect(record.messages.length).toBeGreaterThan(1);
      }
    }
    const means = (step: number, set: string) => {
      const scores = readEvaluation(dir, step).filter((record) => record.set === set);
      return scores.reduce((sum, { reward }) => sum + reward!.score, 0) / scores.length;
    };
    const told = readJsonLines<{ type: string; step: number; set: string; reward: { mean: number } }>(
      join(dir, "events.jsonl"),
    ).filter(({ type }) => type === "evaluation");
    expect(told.length).toBe(5);
    for (const { step, set, reward } of told) expect(means(step, set)).toBeCloseTo(reward.mean, 12);
    // Who learns from the conversations of a run does not find them.
    expect(trajectorySteps(dir)).toEqual([1]);
  });

  it("say how many there are beside them where the scenarios are many", async () => {
    await train(given({ steps: 1, heldOut: held(140), evaluation: { every: 0, samples: 2, selectionShare: 0.5 } }));
    const records = readEvaluation(join(root, "run"), 0);
    expect(records.length).toBe(128);
    expect(records.at(-1)!.notWritten).toEqual({ lost: 0, dropped: 0, refused: 0, evaluated: 12 });
    expect(records.slice(0, -1).every(({ notWritten }) => notWritten === undefined)).toBe(true);
  });

  it("hold those that were lost, also where all were", async () => {
    const reward = new FunctionReward((turns, { scenario }, context) => {
      if (context?.evaluation && scenario?.id !== "held-0") throw new Error("no verdict");
      return politeShare(turns);
    });
    await train(given({ steps: 1, reward, heldOut: held(2) }));
    const records = readEvaluation(join(root, "run"), 0);
    const lost = records.filter(({ scenarioId }) => scenarioId === "held-1");
    expect(lost.length).toBe(2);
    for (const record of lost) expect(record).toMatchObject({ leftOut: "lost", failure: { during: "reward" } });
    expect(new Set(records.map(({ set }) => set)).size).toBe(2);
  });

  it("are none where no conversations are kept", async () => {
    await train(given({ steps: 2, trajectories: { every: 0 } }));
    expect(existsSync(join(root, "run", "trajectories"))).toBe(false);
  });

  it("are cut back with the run, and go with one that is split off", async () => {
    const dir = join(root, "run");
    await train(given());
    const whole = hashesOf(dir);
    const { dir: _, name: __, ...parts } = given();
    const resumeFrom = join(dir, "checkpoints", "step-000002");
    await train({ ...parts, resumeFrom, dir: join(root, "split"), steps: 2 });
    // It ends at step 2, and reports there.
    expect(setsOf(join(root, "split"))).toEqual([
      [0, "selection", "report"],
      [2, "selection", "report"],
    ]);
    await train({ ...parts, agent: tableAgent().agent, resumeFrom: join(root, "split"), steps: 4 });
    const trajectories = (hashes: Record<string, string>) =>
      Object.entries(hashes).filter(([name]) => name.startsWith("trajectories/"));
    expect(trajectories(hashesOf(join(root, "split")))).toEqual(trajectories(whole));
    await train({ ...parts, agent: tableAgent().agent, resumeFrom, discardLater: true });
    expect(hashesOf(dir)).toEqual(whole);
    expect(readdirSync(join(dir, "trajectories"))).toContain("evaluation-000004.jsonl");
  });
});
