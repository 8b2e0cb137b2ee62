import { cpSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { hashesOf } from "../test-support/run-folder.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { train } from "../training/train.ts";
import { MultiTurnGRPOTrainer } from "../training/trainer.ts";
import { CheckpointCallback, EarlyStoppingCallback } from "./callbacks.ts";

const root = temporaryFolder();

const heldOut = Array.from({ length: 4 }, (_, i) => ({ id: `held-${i}`, userResponses: ["help card"] }));

/** Of which each call needs an agent of its own. */
const options = (score: () => number) => ({
  agent: tableAgent().agent,
  environment: tableEnvironment(),
  reward: new FunctionReward(score),
  groupsPerStep: 1,
  groupSize: 2,
  checkpoint: { every: 2 },
});

describe("EarlyStoppingCallback", () => {
  it("stops a run whose evaluations no longer improve", async () => {
    const callbacks = [new EarlyStoppingCallback({ patience: 2 })];
    const given = { ...options(() => 0.5), dir: false as const, heldOut, evaluation: { every: 3 } };
    const { run } = await new MultiTurnGRPOTrainer({ ...given, steps: 30 }).train({ callbacks });
    // Step 3 sets the mark, 6 and 9 do not beat it.
    expect(run).toMatchObject({
      status: "stopped-early",
      steps: 9,
      reason: expect.stringMatching(/best score \(0\.5000 at step 3\) in 2 evaluations/),
    });
  });

  it("counts steps where nothing is evaluated on the way", async () => {
    const callbacks = new EarlyStoppingCallback({ patience: 4 });
    const { run } = await train({ ...options(() => 0.5), dir: false, steps: 30, callbacks });
    const reason = expect.stringMatching(/best score \(0\.5000 at step 1\) in 4 steps/);
    expect(run).toMatchObject({ status: "stopped-early", steps: 5, reason });
  });

  it("lets a run go on that improves", async () => {
    let calls = 0;
    const callbacks = new EarlyStoppingCallback({ patience: 1 });
    const { run } = await train({ ...options(() => ++calls), dir: false, steps: 6, callbacks });
    expect(run.status).toBe("finished");
  });

  it("goes on counting after a resume, and from nothing once it has stopped a run", async () => {
    const dir = join(root, "early");
    const stop = new AbortController();
    const abort = { onStepEnd: ({ step }: { step: number }) => (step === 4 ? stop.abort() : undefined) };
    const first = [new EarlyStoppingCallback({ patience: 6 }), abort];
    await train({ ...options(() => 0.5), dir, steps: 30, callbacks: first, signal: stop.signal });
    const callbacks = () => [new EarlyStoppingCallback({ patience: 6 })];
    const second = await train({ ...options(() => 0.5), resumeFrom: dir, callbacks: callbacks() });
    expect(second.run).toMatchObject({ status: "stopped-early", steps: 7 });
    const third = await train({ ...options(() => 0.5), resumeFrom: dir, callbacks: callbacks() });
    expect(third.run).toMatchObject({ status: "stopped-early", steps: 14 });
  });

  it("refuses options it does not know", () => {
    expect(() => new EarlyStoppingCallback({ patients: 3 } as never)).toThrow(/"patients".*"patience"/s);
  });
});

describe("CheckpointCallback", () => {
  it("copies the run's checkpoints, keeps as many as asked, and a run goes on from one", async () => {
    const [dir, saveDir, all] = ["kept", "copies", "all"].map((name) => join(root, name)) as [string, string, string];
    const callbacks = [new CheckpointCallback({ saveDir, keep: 2 }), new CheckpointCallback({ saveDir: all })];
    const reward = () => new FunctionReward(politeShare);
    const given = { ...options(() => 0), reward: reward(), checkpoint: { every: 2, keep: 1 } };
    await train({ ...given, dir, steps: 8, callbacks });
    expect(readdirSync(join(dir, "checkpoints")).sort()).toEqual(["last", "step-000008"]);
    expect(readdirSync(saveDir).sort()).toEqual(["step-000006", "step-000008"]);
    expect(readdirSync(all).sort()).toEqual([2, 4, 6, 8].map((step) => `step-00000${step}`));
    expect(hashesOf(join(saveDir, "step-000008"))).toEqual(hashesOf(join(dir, "checkpoints", "step-000008")));

    // As whoever lost the run's own checkpoints would: put a copy back.
    const final = hashesOf(join(dir, "final"));
    const checkpoints = join(dir, "checkpoints");
    rmSync(checkpoints, { recursive: true });
    rmSync(join(dir, "final"), { recursive: true });
    cpSync(join(all, "step-000004"), join(checkpoints, "step-000004"), { recursive: true });
    const { run } = await train({ ...options(() => 0), reward: reward(), resumeFrom: dir });
    expect(run).toMatchObject({ status: "finished", steps: 8 });
    expect(hashesOf(join(dir, "final"))).toEqual(final);
  });

  it("says so when the run keeps nothing to copy", async () => {
    const saveDir = join(root, "never");
    const callbacks = [new CheckpointCallback({ saveDir })];
    const { run } = await train({ ...options(() => 0), dir: false, steps: 1, callbacks });
    expect(run.warnings).toContainEqual(
      expect.objectContaining({ kind: "callback-failed", message: expect.stringContaining("nothing to copy") }),
    );
  });
});
