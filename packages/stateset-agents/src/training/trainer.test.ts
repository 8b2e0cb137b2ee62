import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { readStatus } from "../run/status.ts";
import type { Tracker } from "../run/tracker.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { MultiTurnGRPOTrainer } from "./trainer.ts";

const root = mkdtempSync(join(tmpdir(), "trainer-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const settings = {
  environment: tableEnvironment(),
  reward: new FunctionReward(politeShare),
  learningRate: 0.3,
  groupsPerStep: 2,
};

describe("MultiTurnGRPOTrainer", () => {
  it("tells the callbacks of its options and of train() what happens, in order", async () => {
    const told: string[] = [];
    const tell = (name: string) => () => void told.push(name);
    const trainer = new MultiTurnGRPOTrainer({
      ...settings,
      agent: tableAgent().agent,
      dir: join(root, "told"),
      steps: 1,
      heldOut: [{ id: "held", userResponses: ["help"] }],
      evaluation: { every: 1 },
      callbacks: { onStart: tell("start"), onEnd: tell("end") },
    });
    const { agent } = await trainer.train({
      callbacks: [
        { onStepStart: tell("step"), onRollouts: tell("rollouts"), onUpdate: tell("update") },
        { onEvaluation: tell("evaluation"), onStepEnd: tell("done"), onCheckpoint: tell("checkpoint") },
      ],
    });
    expect(told).toEqual([
      "start",
      "evaluation",
      "evaluation",
      "checkpoint",
      "step",
      "rollouts",
      "update",
      "done",
      "evaluation",
      "checkpoint",
      "evaluation",
      "end",
    ]);
    expect(await agent.generateResponse([{ role: "user", content: "help" }])).toEqual(expect.any(String));
  });

  it("drops the step under way and saves when it is stopped, notes so meanwhile, and can be resumed", async () => {
    const dir = join(root, "stopped");
    const noted: unknown[] = [];
    const trainer = new MultiTurnGRPOTrainer({ ...settings, agent: tableAgent().agent, dir, steps: 5 });
    expect(trainer.running).toBe(false);
    const { run } = await trainer.train({
      callbacks: {
        onStepStart({ step }) {
          if (step === 2) trainer.stop();
          noted.push(readStatus(dir)?.stopping);
        },
      },
    });
    expect(run).toMatchObject({ status: "interrupted", steps: 1, dir });
    expect(noted).toEqual([undefined, true]);
    expect(readStatus(dir)).not.toHaveProperty("stopping");
    const again = new MultiTurnGRPOTrainer({ ...settings, agent: tableAgent().agent, resumeFrom: dir });
    expect((await again.train()).run).toMatchObject({ status: "finished", steps: 5 });
  });

  it("gives trackers every step, and survives one that fails", async () => {
    const steps: number[] = [];
    const tracker = (name: string, log: Tracker["log"]): Tracker => ({ name, start() {}, log, finish() {} });
    const broken = tracker("broken", () => {
      throw new Error("no network");
    });
    const trackers = [broken, tracker("works", (step) => void steps.push(step))];
    const trainer = new MultiTurnGRPOTrainer({
      ...settings,
      agent: tableAgent().agent,
      dir: false,
      steps: 3,
      trackers,
    });
    const { run } = await trainer.train();
    expect(steps).toEqual([1, 2, 3]);
    expect(run.warnings).toMatchObject([{ kind: "tracker-failed", message: /"broken".*no network/ }]);
  });
});
