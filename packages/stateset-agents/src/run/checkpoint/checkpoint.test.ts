import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { flipBit, hashesOf } from "../../test-support/run-folder.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "../../test-support/table-training.ts";
import { autoAdjust } from "../../training/auto-adjust.ts";
import { train } from "../../training/train.ts";
import type { TrainParts } from "../../training/train-options.ts";
import type { StepEnd } from "../callbacks.ts";
import { runFiles } from "../layout.ts";

const root = mkdtempSync(join(tmpdir(), "checkpoints-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folders = 0;
const folder = () => join(root, `run-${++folders}`);

const heldOut = Array.from({ length: 4 }, (_, i) => ({ id: `held-${i}`, userResponses: ["help card", "order no"] }));

function options(dir: string) {
  const { agent, policy } = tableAgent();
  return {
    policy,
    given: {
      agent,
      environment: tableEnvironment(),
      reward: new FunctionReward(politeShare),
      heldOut,
      dir,
      steps: 9,
      learningRate: 0.2,
      groupsPerStep: 2,
      algorithm: "ppo",
      kl: { renewEvery: 3 },
      updatesPerRollout: 2,
      minibatches: 2,
      checkpoint: { every: 2, keep: 2 },
      evaluation: { every: 3, samples: 2 },
      trajectories: { every: 4 },
      callbacks: [autoAdjust()],
    } as const,
  };
}

/** Runs until `stopAfter` steps, then resumes in a fresh agent to the end. */
async function interrupted(dir: string, stopAfter: number) {
  const stop = new AbortController();
  const first = options(dir);
  const onStepEnd = ({ step }: { step: number }) => {
    if (step === stopAfter) stop.abort();
  };
  const callbacks = [...first.given.callbacks, { onStepEnd }];
  const { run } = await train({ ...first.given, callbacks, signal: stop.signal });
  return run;
}

async function resumed(resumeFrom: string, place: Pick<TrainParts, "dir" | "discardLater"> = {}) {
  const { policy, given } = options(resumeFrom);
  const { dir: _, ...rest } = given;
  const { run } = await train({ ...rest, resumeFrom, ...place });
  return { run, policy };
}

/** In all but the run's own name and the weights' origin. */
function expectSameFiles(dir: string, expected: string): void {
  expect(hashesOf(dir, [runFiles.config])).toEqual(hashesOf(expected, [runFiles.config]));
}

const bytes = (dir: string, ...path: string[]) => readFileSync(join(dir, ...path));
const whole = (async () => {
  const dir = folder();
  const { policy, given } = options(dir);
  const { run } = await train(given);
  return { dir, policy, run };
})();

describe("a run's folder", () => {
  it("holds config, metrics, timing, trajectories, checkpoints and the final agent", async () => {
    const { dir, run } = await whole;
    const absent: string[] = [
      runFiles.lock,
      runFiles.cli,
      runFiles.harvest,
      runFiles.worker,
      runFiles.resumed,
      runFiles.notes,
    ];
    expect(readdirSync(dir).sort()).toEqual(
      Object.values(runFiles)
        .filter((name) => !absent.includes(name))
        .sort(),
    );
    expect(readdirSync(join(dir, "final")).sort()).toEqual(["agent.json", "parameters.bin", "version"]);
    expect(readdirSync(join(dir, "trajectories")).sort()).toEqual([
      ...[0, 3, 6, 9].map((step) => `evaluation-00000${step}.jsonl`),
      ...[1, 5, 9].flatMap((step) => [`step-00000${step}.bin`, `step-00000${step}.jsonl`]),
    ]);
    const lines = readFileSync(join(dir, "metrics.jsonl"), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.map((line) => line.step)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(lines).toEqual(run.metrics);
    const config = JSON.parse(readFileSync(join(dir, "config.json"), "utf8"));
    expect(config.settings.steps).toBe(9);
    expect(config.algorithm.algorithm).toBe("ppo");
  });

  it("keeps the newest checkpoints and the best one", async () => {
    const { dir, run } = await whole;
    const names = readdirSync(join(dir, "checkpoints")).filter((name) => name.startsWith("step-"));
    expect(names).toContain("step-000009");
    expect(names).toContain("step-000008");
    expect(readFileSync(join(dir, "checkpoints", "last"), "utf8")).toBe("step-000009");
    const best = readFileSync(join(dir, "checkpoints", "best"), "utf8");
    expect(best).toBe(`step-${String(run.best!.step).padStart(6, "0")}`);
    expect(names).toContain(best);
    expect(names.length).toBeLessThanOrEqual(3);
  });

  it("is never overwritten by another run", async () => {
    const { dir } = await whole;
    await expect(train(options(dir).given)).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: /already holds a run/,
    });
  });
});

describe("a resumed run", { timeout: 300_000 }, () => {
  it.each([1, 2, 4, 5, 8])("ends in the same bytes after a stop at step %i", async (stopAfter) => {
    const { dir: expected, policy } = await whole;
    const dir = folder();
    const first = await interrupted(dir, stopAfter);
    expect(first.status).toBe("interrupted");
    expect(first.steps).toBe(stopAfter);
    const second = await resumed(dir);
    expect(second.run.status).toBe("finished");
    expect(second.policy.parameters).toEqual(policy.parameters);
    expectSameFiles(dir, expected);
  });

  it("finds a checkpoint again that was being replaced when the run was killed", async () => {
    const { dir: expected } = await whole;
    const dir = folder();
    await interrupted(dir, 5);
    const checkpoints = join(dir, "checkpoints");
    renameSync(join(checkpoints, "step-000005"), join(checkpoints, ".old-step-000005"));
    mkdirSync(join(checkpoints, ".tmp-1-step-000005"));
    const steps: number[] = [];
    const { dir: _, ...rest } = options(dir).given;
    const onStepStart = ({ step }: { step: number }) => void steps.push(step);
    await train({ ...rest, callbacks: [...rest.callbacks, { onStepStart }], resumeFrom: dir });
    expect(steps[0]).toBe(6);
    expect(bytes(dir, "metrics.jsonl").equals(bytes(expected, "metrics.jsonl"))).toBe(true);
    expect(readdirSync(checkpoints).filter((name) => name.startsWith("."))).toEqual([]);
  });

  it("does not write the same checkpoint twice when it is stopped right after one", async () => {
    const stop = new AbortController();
    const { given } = options(folder());
    const saved: number[] = [];
    const onCheckpoint = ({ step }: { step: number }) => {
      saved.push(step);
      if (step === 4) stop.abort();
    };
    const { run } = await train({ ...given, callbacks: [...given.callbacks, { onCheckpoint }], signal: stop.signal });
    expect(run).toMatchObject({ status: "interrupted", steps: 4 });
    expect(saved.filter((step) => step === 4)).toEqual([4]);
  });

  it("starts again when it was killed before its first checkpoint", async () => {
    const { dir: expected, policy } = await whole;
    const dir = folder();
    await interrupted(dir, 1);
    rmSync(join(dir, "checkpoints"), { recursive: true });
    const { run, policy: again } = await resumed(dir);
    expect(run.warnings.some((warning) => warning.kind === "restarted")).toBe(true);
    expect(again.parameters).toEqual(policy.parameters);
    expect(bytes(dir, "metrics.jsonl").equals(bytes(expected, "metrics.jsonl"))).toBe(true);
  });

  it("does not go on past the step at which it stopped early when it was killed right after", async () => {
    const dir = folder();
    const { given } = options(dir);
    const { run } = await train({ ...given, evaluation: { every: 2, samples: 2 }, earlyStopping: { target: 0 } });
    expect(run).toMatchObject({ status: "stopped-early", steps: 2 });
    rmSync(join(dir, "final"), { recursive: true });
    const status = JSON.parse(readFileSync(join(dir, "status.json"), "utf8"));
    writeFileSync(join(dir, "status.json"), JSON.stringify({ ...status, state: "running", pid: 2 ** 30 }));
    const again = await resumed(dir);
    expect(again.run).toMatchObject({ status: "stopped-early", steps: 2, reason: run.reason });
    expect(existsSync(join(dir, "final", "parameters.bin"))).toBe(true);
  });

  it("goes on when it stopped early and is asked to", async () => {
    const dir = folder();
    const { given } = options(dir);
    const stopAtTwo = {
      onStepEnd: ({ step, stop }: StepEnd) => {
        if (step === 2) stop("Good enough.");
      },
    };
    const { run } = await train({ ...given, callbacks: [...given.callbacks, stopAtTwo] });
    expect(run).toMatchObject({ status: "stopped-early", steps: 2, reason: "Good enough." });
    expect(existsSync(join(dir, "final", "parameters.bin"))).toBe(true);
    expect(run.evaluation?.after?.step).toBe(2);
    const again = await resumed(dir);
    expect(again.run).toMatchObject({ status: "finished", steps: 9 });
    const { policy } = await whole;
    expect(again.policy.parameters).toEqual(policy.parameters);
  });

  it("says which options changed, and refuses another algorithm", async () => {
    const dir = folder();
    await interrupted(dir, 2);
    const { dir: _, ...rest } = options(dir).given;
    const { run } = await train({ ...rest, resumeFrom: dir, steps: 3, clipNorm: 0.5 });
    expect(run.warnings.map((w) => [w.kind, w.message])).toEqual([
      ["options-changed", "The run goes on otherwise than it began: settings.clipNorm 1 → 0.5, settings.steps 9 → 3."],
    ]);
    const other = { ...rest, algorithm: "grpo", resumeFrom: dir } as const;
    await expect(train(other)).rejects.toMatchObject({ code: "CHECKPOINT_MISMATCH", message: /trained with ppo/ });
  });

  it("goes on from one named checkpoint only when what came later may go", async () => {
    const { dir: source, policy } = await whole;
    const dir = folder();
    cpSync(source, dir, { recursive: true });
    const earlier = join(dir, "checkpoints", "step-000008");
    await expect(resumed(earlier)).rejects.toThrow(/would remove what came after it: step-000009.*discardLater/);
    expectSameFiles(dir, source);
    const { run, policy: again } = await resumed(earlier, { discardLater: true });
    expect(run.metrics.length).toBe(10);
    expect(again.parameters).toEqual(policy.parameters);
    expectSameFiles(dir, source);
  });

  it("is split off from an earlier checkpoint into a new run, and the old one is left alone", async () => {
    const { dir: source, policy } = await whole;
    const before = folder();
    cpSync(source, before, { recursive: true });
    const target = folder();
    const { run, policy: again } = await resumed(join(source, "checkpoints", "step-000008"), { dir: target });
    expect(run).toMatchObject({ status: "finished", steps: 9, dir: target });
    expect(again.parameters).toEqual(policy.parameters);
    expectSameFiles(source, before);
    expect(bytes(target, "metrics.jsonl").equals(bytes(source, "metrics.jsonl"))).toBe(true);
    const config = JSON.parse(bytes(target, "config.json").toString());
    expect(config.forkedFrom).toEqual({ run: JSON.parse(bytes(source, "config.json").toString()).id, step: 8 });
  });

  it.each([
    [
      "a bit is flipped",
      (dir: string) => flipBit(join(dir, "policy", "parameters.bin")),
      /parameters\.bin does not have the content/,
    ],
    [
      "a file is cut short",
      (dir: string) => truncateSync(join(dir, "policy", "second.bin"), 100),
      /second\.bin has 100 bytes/,
    ],
    ["a file is missing", (dir: string) => rmSync(join(dir, "state.json")), /state\.json is missing/],
    [
      "the manifest is cut short",
      (dir: string) => truncateSync(join(dir, "manifest.json"), 50),
      /manifest\.json cannot be read/,
    ],
  ])("names the damage and uses the checkpoint before it when %s", async (_, damage, message) => {
    const { dir: source, policy } = await whole;
    const dir = folder();
    cpSync(source, dir, { recursive: true });
    damage(join(dir, "checkpoints", "step-000009"));
    const { run, policy: again } = await resumed(dir);
    const warning = run.warnings.find((w) => w.kind === "checkpoint-damaged");
    expect(warning?.message).toMatch(message);
    expect(warning?.message).toContain("step-000009");
    expect(existsSync(join(dir, "checkpoints", "damaged-step-000009"))).toBe(true);
    expect(again.parameters).toEqual(policy.parameters);
    expect(bytes(dir, "metrics.jsonl").equals(bytes(source, "metrics.jsonl"))).toBe(true);
  });

  it("refuses when every checkpoint is damaged, when there is none, and when it is of another model", async () => {
    const { dir: source } = await whole;
    const dir = folder();
    cpSync(source, dir, { recursive: true });
    const { given } = options(dir);
    const { dir: _, ...rest } = given;
    const other = { ...rest, agent: tableAgent({ words: ["please", "no"] }).agent, resumeFrom: dir };
    await expect(train(other)).rejects.toMatchObject({
      code: "CHECKPOINT_MISMATCH",
      message: /belongs to another model/,
    });
    for (const name of readdirSync(join(dir, "checkpoints"))) {
      if (name.startsWith("step-")) flipBit(join(dir, "checkpoints", name, "policy", "parameters.bin"));
    }
    await expect(resumed(dir)).rejects.toMatchObject({ code: "CHECKPOINT_INVALID", message: /Every checkpoint/ });
    await expect(resumed(join(root, "nowhere"))).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
  });
});

describe("a disk that fails", () => {
  it("says so and leaves the last good checkpoint intact", async () => {
    const { policy: expected } = await whole;
    const dir = folder();
    const { policy, given } = options(dir);
    const snapshot = policy.snapshot.bind(policy);
    let writes = 0;
    policy.snapshot = async (to) => {
      const written = await snapshot(to);
      if (++writes === 3) throw Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
      return written;
    };
    const ends: string[] = [];
    const callbacks = [...given.callbacks, { onEnd: ({ status }: { status: string }) => void ends.push(status) }];
    await expect(train({ ...given, callbacks })).rejects.toMatchObject({
      code: "WRITE_FAILED",
      message: /step-\d+.*no space left.*free some space.*intact/s,
    });
    expect(ends).toEqual(["failed"]);
    const names = readdirSync(join(dir, "checkpoints")).filter((name) => !["best", "last"].includes(name));
    expect(names.every((name) => name.startsWith("step-"))).toBe(true);
    const { policy: again } = await resumed(dir);
    expect(again.parameters).toEqual(expected.parameters);
  });

  it("says so when the folder cannot be made", async () => {
    const file = join(root, "a-file");
    writeFileSync(file, "");
    await expect(train(options(join(file, "run")).given)).rejects.toMatchObject({ code: "WRITE_FAILED" });
    expect(existsSync(file)).toBe(true);
  });
});
