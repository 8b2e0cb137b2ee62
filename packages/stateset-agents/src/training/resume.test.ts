/** What a run needs to be told again when it is resumed, and how one that broke goes on. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { defineAlgorithm } from "../algorithm/define-algorithm.ts";
import { tokenLoss } from "../algorithm/loss/token-loss.ts";
import { FunctionReward, politeShare, quickRun, tableAgent } from "../test-support/table-training.ts";
import { autoAdjust } from "./auto-adjust.ts";
import { train } from "./train.ts";

const root = mkdtempSync(join(tmpdir(), "resume-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folders = 0;
const folder = () => join(root, `run-${++folders}`);

function options(dir: string) {
  const { agent } = tableAgent();
  const reward = new FunctionReward(politeShare);
  return { ...quickRun, agent, reward, dir, steps: 9, groupsPerStep: 2, checkpoint: { every: 2 } };
}

describe("a resumed run's algorithm", () => {
  it("keeps its options where they are left out, whichever are given", async () => {
    const dir = folder();
    const given = options(dir);
    await train({ ...given, algorithm: "dapo", epsilonLow: 0.1, overlongPenalty: 0.5, steps: 1 });
    const optionsOf = () => JSON.parse(readFileSync(join(dir, "config.json"), "utf8")).algorithm;
    const again = { ...given, dir: undefined, resumeFrom: dir };
    await train({ ...again, agent: tableAgent().agent, epsilonHigh: 0.4, steps: 2 });
    expect(optionsOf()).toMatchObject({ algorithm: "dapo", epsilonLow: 0.1, epsilonHigh: 0.4, overlongPenalty: 0.5 });
    await train({ ...again, agent: tableAgent().agent, algorithm: "dapo", epsilonLow: 0.3, steps: 3 });
    expect(optionsOf()).toMatchObject({ epsilonLow: 0.3, epsilonHigh: 0.4, overlongPenalty: 0.5 });
  });

  it("has to be given again when it is one of the user's own", async () => {
    const dir = folder();
    const own = { ...options(dir), steps: 1 };
    const loss = tokenLoss(({ logprob, advantage }) => ({ loss: -advantage * logprob, slope: -advantage }));
    await train({ ...own, algorithm: defineAlgorithm({ name: "mine", loss }) });
    const resuming = train({ ...own, dir: undefined, resumeFrom: dir });
    await expect(resuming).rejects.toThrow(/algorithm of your own, "mine".*Give it to train/);
  });
});

describe("three updates in a row that are not finite", () => {
  it("stop the run with a saved checkpoint", async () => {
    const dir = folder();
    let conversations = 0;
    const reward = new FunctionReward((turns) => (++conversations > 40 ? Number.NaN : politeShare(turns)));
    const run = train({ ...options(dir), reward });
    await expect(run).rejects.toMatchObject({ code: "NOT_FINITE", message: /3 updates in a row/ });
    expect(readFileSync(join(dir, "checkpoints", "last"), "utf8")).toMatch(/^step-/);
  });

  it("can be resumed once the reward is repaired", async () => {
    const dir = folder();
    const broken = { ...options(dir), reward: new FunctionReward(() => Number.NaN) };
    await expect(train(broken)).rejects.toMatchObject({ code: "NOT_FINITE" });
    const { run } = await train({ ...options(dir), dir: undefined, resumeFrom: dir });
    expect(run.status).toBe("finished");
    expect(run.metrics.at(-1)).toMatchObject({ step: 9, notFinite: 3 });
    expect(run.metrics.at(-1)!.optimiserSteps).toBeGreaterThan(0);
  });
});

describe("three steps in a row without a conversation", () => {
  it("stop the run with a saved checkpoint and the cause, and can be resumed", async () => {
    const dir = folder();
    let judging = true;
    const reward = new FunctionReward((turns) => {
      if (!judging) throw new Error("the budget is spent");
      return politeShare(turns);
    });
    const given = { ...options(dir), reward };
    const callbacks = [
      autoAdjust(),
      {
        onStepEnd: ({ step }: { step: number }) => {
          judging = step < 2;
        },
      },
    ];
    await expect(train({ ...given, callbacks })).rejects.toMatchObject({
      code: "REWARD_FAILED",
      message:
        /3 steps in a row \(step 5\).*the budget is spent.*A checkpoint was saved.*Repair the reward, then resume/,
    });
    expect(readFileSync(join(dir, "checkpoints", "last"), "utf8")).toMatch(/^step-0+5/);
    judging = true;
    const { run } = await train({ ...given, agent: tableAgent().agent, dir: undefined, resumeFrom: dir });
    expect(run).toMatchObject({ status: "finished", steps: 9 });
  });
});
