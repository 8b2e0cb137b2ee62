/** What becomes of a run whose worker is lost on the way. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { chatModel } from "../../test/cli.ts";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import type { Policy } from "../policy/policy.ts";
import type { TorchPolicy } from "../policy/torch/torch-policy.ts";
import type { Tracker } from "../run/tracker.ts";
import { createMortalPolicy } from "../test-support/mortal-policy.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { FunctionReward, politeShare, quickRun, tableScenarios } from "../test-support/table-training.ts";
import { autoAdjust } from "./auto-adjust.ts";
import type { TrainingCallbacks } from "./callbacks.ts";
import { train } from "./train.ts";

const steps = 6;

function run(policy: Policy, dir: string | false | undefined, more: object = {}) {
  return train({
    ...quickRun,
    steps,
    agent: new MultiTurnAgent({ policy, sampling: { maxTokens: 6 } }),
    reward: new FunctionReward(politeShare),
    dir,
    groupsPerStep: 2,
    groupSize: 2,
    heldOut: tableScenarios.slice(0, 2).map((scenario) => ({ ...scenario, id: `held-${scenario.id}` })),
    evaluation: { every: 2 },
    checkpoint: { every: 2 },
    kl: { coefficient: 0.01 },
    sampler: { kind: "hard" },
    algorithm: "ppo",
    callbacks: autoAdjust(),
    ...more,
  });
}

const files = (dir: string) =>
  ["metrics", "events", "evaluations"].map((name) => readFileSync(join(dir, `${name}.jsonl`), "utf8"));

describe("a run whose worker is lost", () => {
  const undisturbed = temporaryFolder();
  let expected: Awaited<ReturnType<typeof run>>["run"];
  beforeAll(async () => {
    expected = (await run(createTablePolicy(), undisturbed)).run;
  });

  it.each([
    ["in a step, after a checkpoint", { step: [4] }],
    ["while sampling", { sample: [60] }],
    ["before its first checkpoint", { forward: [3] }],
    ["while a checkpoint is written", { snapshot: [2] }],
    ["while it is saved in the end", { save: [1] }],
    ["three times", { step: [1, 4, 7] }],
    ["while another one is started", { step: [4], revive: [1] }],
  ])("%s ends like one that was not disturbed", async (_, deaths) => {
    const dir = temporaryFolder();
    const policy = createMortalPolicy(deaths);
    const { run: ended } = await run(policy, dir);
    const times = Object.values(deaths).flat().length;
    const early = ("revive" in deaths ? deaths.revive : []).length;
    expect(policy.revived).toBe(times - early);
    expect(files(dir)).toEqual(files(undisturbed));
    expect(ended.status).toBe("finished");
    expect(ended.metrics).toEqual(expected.metrics);
    expect(ended.best).toEqual(expected.best);
    expect(ended.warnings.filter(({ kind }) => kind === "worker-lost")).toHaveLength(times - early);
    const said = readFileSync(join(dir, "worker.log"), "utf8");
    expect(said.match(/The worker was lost in \w+\(\) \d+\.\nIts stacks$/gm)).toHaveLength(times);
  });

  it("begins again where nothing is kept, with the weights it was opened with", async () => {
    const policy = createMortalPolicy({ step: [5] });
    const { run: ended } = await run(policy, false);
    const { run: plain } = await run(createTablePolicy(), false);
    expect(ended.metrics).toEqual(plain.metrics);
    const { message } = ended.warnings.find(({ kind }) => kind === "worker-lost")!;
    expect(message).toMatch(/lost in step\(\) 5\.\nIts stacks The run begins again; 2 restarts left/);
  });

  it("fails where the weights it began with were learnt, and are gone", async () => {
    const again = createMortalPolicy({ step: [4] });
    await run(again, false, { steps: 2 });
    const failing = run(again, false);
    await expect(failing).rejects.toThrow(/weights the run began with went with it.*no checkpoint yet/);
    expect(again.revived).toBe(1);
  });

  it("gives up after `restarts`, and says how often", async () => {
    const policy = createMortalPolicy({ step: [2, 3, 4] });
    await expect(run(policy, false, { restarts: 2 })).rejects.toMatchObject({
      code: "WORKER_LOST",
      message: expect.stringMatching(/It was lost 3 times in this run/),
    });
    expect(policy.revived).toBe(2);
    const stillborn = createMortalPolicy({ step: [2], revive: [1, 2] });
    await expect(run(stillborn, false, { restarts: 2 })).rejects.toThrow("It was lost 3 times in this run");
    expect(stillborn.revived).toBe(0);
    const never = createMortalPolicy({ step: [2] });
    await expect(run(never, false, { restarts: 0 })).rejects.toThrow("The worker was lost in step() 2.");
    expect(never.revived).toBe(0);
  });

  it("fails with both reasons where no other worker can be had", async () => {
    const dir = temporaryFolder();
    const failing = run(createMortalPolicy({ step: [4] }, { another: false }), dir);
    await expect(failing).rejects.toMatchObject({
      code: "WORKER_LOST",
      message: expect.stringMatching(/lost in step\(\) 4\..*No other could be had: nobody answers.*--resume/s),
    });
    const { run: ended } = await run(createTablePolicy(), undefined, { resumeFrom: dir });
    expect(ended.metrics).toEqual(expected.metrics);
  });

  it("is not begun again for other errors", async () => {
    const policy = createMortalPolicy({ step: [2] }, { code: "ENGINE_FAILED" });
    await expect(run(policy, false)).rejects.toMatchObject({ code: "ENGINE_FAILED" });
    expect(policy.revived).toBe(0);
  });

  it("is another start to trackers, from the step it goes on after", async () => {
    const told: unknown[] = [];
    const tracker: Tracker = {
      name: "told",
      start: ({ resumedAfter }) => void told.push(["start", resumedAfter]),
      log: (step) => void (told.at(-1) !== step && told.push(step)),
      finish: ({ status, steps: done }) => void told.push([status, done]),
    };
    await run(createMortalPolicy({ step: [4] }), temporaryFolder(), { trackers: [tracker], evaluation: { every: 0 } });
    expect(told).toEqual([
      ["start", undefined],
      ...[0, 1, 2, 3],
      ["interrupted", 3],
      ["start", 2],
      ...[3, 4, 5, 6],
      ["finished", 6],
    ]);
  });
});

const python = process.env.STATESET_PYTHON;
it.skipIf(!python)(
  "a run goes on after kill -9 of a real worker, with all its steps",
  async () => {
    const model = await chatModel(1);
    const dir = temporaryFolder();
    const agent = new MultiTurnAgent({
      ...{ model, engine: "torch", torch: { device: "cpu" } },
      sampling: { maxTokens: 6 },
    });
    const pids: number[] = [];
    const killed: TrainingCallbacks = {
      onRollouts({ step }) {
        const { worker } = agent.policy as TorchPolicy;
        if (step !== 3) return;
        if (pids.length === 0) process.kill(worker.pids[0]!, "SIGKILL");
        pids.push(...worker.pids);
      },
    };
    const reward = new FunctionReward((turns) => turns.at(-1)!.content.length);
    const settings = { ...quickRun, steps: 4, groupsPerStep: 1, groupSize: 2, checkpoint: { every: 1 }, recall: false };
    const { run: ended } = await train({ ...settings, agent, reward, dir, callbacks: killed });
    await agent.close();
    expect(ended.status).toBe("finished");
    expect(ended.metrics.map(({ step }) => step)).toEqual([1, 2, 3, 4]);
    expect(new Set(pids).size).toBe(2);
    expect(ended.warnings.map(({ kind }) => kind)).toContain("worker-lost");
    expect(readFileSync(join(dir, "worker.log"), "utf8")).toMatch(/rank 0 ended by SIGKILL/);
  },
  120_000,
);
