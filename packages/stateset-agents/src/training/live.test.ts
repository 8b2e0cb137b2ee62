/** What onlookers see of the conversations of a step, while train() goes on. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import type { Turn } from "../conversation/trajectory.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import type { EnvironmentState } from "../environment/environment.ts";
import type { ConversationScenario } from "../environment/scenario.ts";
import { LiveTail, readLive } from "../run/read-live.ts";
import { readTrajectories } from "../run/trajectories.ts";
import { keptRun } from "../test-support/kept-run.ts";
import { hashesOf } from "../test-support/run-folder.ts";
import { FunctionReward, politeShare, tableScenarios } from "../test-support/table-training.ts";
import { train } from "./train.ts";
import type { TrainOptions } from "./train-options.ts";

let root: string;
beforeEach(() => {
  root = temporaryFolder();
});

const given = (options: Partial<TrainOptions> = {}) => keptRun(join(root, "run"), options);

describe("live conversations", { timeout: 60_000 }, () => {
  it("are those of the steps, with their rewards, and none of evaluations", async () => {
    await train(given({ heldOut: tableScenarios.slice(0, 2), evaluation: { every: 1 } }));
    const dir = join(root, "run");
    const written = [1, 2].flatMap((step) => readTrajectories(dir, step));
    const live = readLive(dir);
    expect(live.length).toBe(24);
    for (const record of written) {
      const own = live.find(({ id }) => id === record.id)!;
      const { step, group, scenarioId: scenario, ended, messages, reward } = record;
      expect(own).toMatchObject({ step, group, scenario, ended, messages, failure: null });
      expect(own).toMatchObject({ reward: reward!.score, breakdown: reward!.breakdown });
    }
  });

  it("are there before their step is over", async () => {
    const tail = new LiveTail(join(root, "run"));
    const seen: number[] = [];
    let gate: Promise<unknown> | undefined;
    const reward = new FunctionReward(async (turns) => {
      // All of them have ended by now; none is rewarded.
      gate ??= expect
        .poll(() => {
          seen.push(tail.next().length);
          return tail.all().length;
        })
        .toBe(12);
      await gate;
      return politeShare(turns);
    });
    await train(given({ steps: 1, reward }));
    expect(seen.reduce((a, b) => a + b, 0)).toBe(12);
    expect(tail.all().every((one) => one.reward === null)).toBe(true);
    expect(tail.next().length).toBe(12);
  });

  it("say what failed, and what a conversation that broke the environment counts", async () => {
    class Touchy extends ConversationEnvironment {
      override async step(state: EnvironmentState<ConversationScenario>, action: Turn) {
        if (action.content.includes("no")) throw new Error("cannot hear no");
        return super.step(state, action);
      }
    }
    const environment = new Touchy({ scenarios: tableScenarios, maxTurns: 1 });
    const reward = new FunctionReward((turns, { scenario }) => {
      if (scenario?.id === "scenario-0") throw new Error("no verdict");
      return politeShare(turns);
    });
    await train(given({ steps: 1, environment, reward, groupsPerStep: 4, onFailure: { score: -2 } }));
    const live = readLive(join(root, "run"));
    const broken = live.filter(({ ended }) => ended === "failed");
    expect(broken.length).toBeGreaterThan(0);
    for (const one of broken) expect(one).toMatchObject({ reward: -2, failure: "cannot hear no" });
    const lost = live.filter(({ scenario, ended }) => scenario === "scenario-0" && ended !== "failed");
    for (const one of lost) expect(one).toMatchObject({ reward: null, failure: expect.stringContaining("no verdict") });
    expect(lost.length).toBeGreaterThan(0);
  });

  it("leave every other byte of the run as it is, also where they cannot be written", async () => {
    await train(given());
    const blocked = join(root, "blocked");
    let said = 0;
    mkdirSync(join(blocked, "live.jsonl"), { recursive: true });
    const callbacks = { onWarning: ({ kind }: { kind: string }) => void (kind === "live-failed" && said++) };
    await train(given({ dir: blocked, callbacks }));
    expect(said).toBe(1);
    expect(hashesOf(blocked)).toEqual(hashesOf(join(root, "run")));
  });

  it("are taken back with the steps that a resumed run does again", async () => {
    const dir = join(root, "run");
    await train(given({ steps: 4, checkpoint: { every: 2 } }));
    const before = readLive(dir);
    const { steps: _, dir: __, name: ___, ...parts } = given();
    const resumeFrom = join(dir, "checkpoints", "step-000002");
    await train({ ...parts, resumeFrom, discardLater: true, steps: 3 });
    const after = readLive(dir);
    expect(after.map(({ step, id, reward }) => [step, id, reward])).toEqual(
      before.filter(({ step }) => step <= 3).map(({ step, id, reward }) => [step, id, reward]),
    );
    expect(Math.min(...after.filter(({ step }) => step === 3).map(({ seq }) => seq))).toBeGreaterThan(96);
  });
});
