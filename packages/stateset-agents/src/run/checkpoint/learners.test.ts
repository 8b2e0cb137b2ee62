/** What a run survives, whatever learns in it from data; checkpoint.test.ts has the same and more of train(). */
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { flipBit, hashesOf } from "../../test-support/run-folder.ts";
import { fitLearners, tableLearner } from "../../test-support/table-learners.ts";
import { forkRun } from "../fork.ts";
import { runFiles } from "../layout.ts";
import { readStatus } from "../status.ts";
import type { Tracker } from "../tracker.ts";
import { verifyManifest } from "./manifest.ts";

const root = mkdtempSync(join(tmpdir(), "learners-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folders = 0;
const folder = () => join(root, `run-${++folders}`);
const bytes = (dir: string, ...path: string[]) => readFileSync(join(dir, ...path));
const lines = (dir: string, file: string) =>
  String(bytes(dir, file))
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

/** In all but the run's own name. */
function expectSameFiles(dir: string, expected: string): void {
  expect(hashesOf(dir, [runFiles.config])).toEqual(hashesOf(expected, [runFiles.config]));
}

const wholes = new Map<string, Promise<{ dir: string; parameters: Float32Array }>>();
/** A run that nobody disturbed. */
function whole(kind: (typeof fitLearners)[number]) {
  const done = wholes.get(kind);
  if (done) return done;
  const running = (async () => {
    const dir = folder();
    const { run, policy } = tableLearner(kind);
    await run({ dir });
    return { dir, parameters: policy.parameters };
  })();
  wholes.set(kind, running);
  return running;
}

// These are DPO with another loss.
describe.each(fitLearners.filter((kind) => !["ipo", "robust", "hinge"].includes(kind)))("a run of %s", (kind) => {
  const evaluates = kind !== "value-function";

  it("leaves the same folder as train() does", async () => {
    const { dir } = await whole(kind);
    const absent: string[] = [
      runFiles.lock,
      runFiles.worker,
      runFiles.resumed,
      runFiles.cli,
      runFiles.live,
      runFiles.notes,
      runFiles.harvest,
      ...(evaluates ? [] : [runFiles.evaluations]),
    ];
    expect(readdirSync(dir).sort()).toEqual(
      Object.values(runFiles)
        .filter((name) => !absent.includes(name))
        .sort(),
    );
    const config = JSON.parse(String(bytes(dir, "config.json")));
    expect(config).toMatchObject({ version: 2, learner: kind, settings: { epochs: 4, learningRate: 0.05 } });
    expect(config.data).toMatchObject({ learnt: 7 });
    const { steps } = tableLearner(kind);
    expect(JSON.parse(String(bytes(dir, "status.json")))).toMatchObject({ state: "finished", step: steps, steps });
    const events = lines(dir, "events.jsonl");
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, i) => i));
    const count = (type: string) => events.filter((event) => event.type === type).length;
    expect([count("start"), count("update"), count("step"), count("end")]).toEqual([1, steps, steps, 1]);
    expect(events.filter(({ type }) => type === "evaluation").map(({ step }) => step)).toEqual(
      evaluates ? [0, 3, 6, 9, 12, 15, 16] : [],
    );
    expect(lines(dir, "metrics.jsonl").at(-1)).toMatchObject({ step: steps, optimiserSteps: steps, notFinite: 0 });
    const saved = kind === "sft" || kind === "value-function" ? "agent.json" : "parameters.bin";
    expect(readdirSync(join(dir, "final"))).toContain(kind === "reward-model" ? "reward-model.json" : saved);
  });

  it.each([1, 3, 4])("ends in the same bytes after a stop at step %i", async (stopAfter) => {
    const { dir: expected, parameters } = await whole(kind);
    const dir = folder();
    const stop = new AbortController();
    const onStepEnd = ({ step }: { step: number }) => void (step === stopAfter && stop.abort());
    const first = await tableLearner(kind).run({ dir, signal: stop.signal, callbacks: { onStepEnd } });
    expect(first).toMatchObject({ status: "interrupted", steps: stopAfter, finalDir: undefined });
    const { policy, run } = tableLearner(kind);
    expect(await run({ resumeFrom: dir })).toMatchObject({ status: "finished", warnings: [] });
    expect(policy.parameters).toEqual(parameters);
    expectSameFiles(dir, expected);
  });

  it.each([
    ["a file is cut short", (dir: string) => truncateSync(join(dir, "policy", "second.bin"), 100), /has 100 bytes/],
    ["a bit is flipped", (dir: string) => flipBit(join(dir, "state.json")), /state\.json does not have the content/],
  ])("sets the newest checkpoint aside and uses the one before when %s", async (_, damage, message) => {
    const { dir: source, parameters } = await whole(kind);
    const dir = folder();
    cpSync(source, dir, { recursive: true });
    damage(join(dir, "checkpoints", "step-000016"));
    const { policy, run } = tableLearner(kind);
    const { warnings } = await run({ resumeFrom: dir });
    expect(warnings.map((warning) => warning.kind)).toEqual(["checkpoint-damaged"]);
    expect(warnings[0]!.message).toMatch(message);
    expect(existsSync(join(dir, "checkpoints", "damaged-step-000016"))).toBe(true);
    expect(policy.parameters).toEqual(parameters);
    expect(bytes(dir, "metrics.jsonl").equals(bytes(source, "metrics.jsonl"))).toBe(true);
  });

  it("says that the disk failed, and leaves the last good checkpoint intact", async () => {
    const { dir: expected, parameters } = await whole(kind);
    const dir = folder();
    const { policy, run } = tableLearner(kind);
    const { snapshot } = policy;
    let writes = 0;
    policy.snapshot = async (to) => {
      const written = await snapshot(to);
      if (++writes === 3) throw Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
      return written;
    };
    const ends: string[] = [];
    const onEnd = ({ status }: { status: string }) => void ends.push(status);
    await expect(run({ dir, callbacks: { onEnd } })).rejects.toMatchObject({
      code: "WRITE_FAILED",
      message: /step-\d+.*no space left.*free some space.*intact/s,
    });
    expect(ends).toEqual(["failed"]);
    const names = readdirSync(join(dir, "checkpoints")).filter((name) => !["best", "last"].includes(name));
    expect(names.every((name) => name.startsWith("step-"))).toBe(true);
    const again = tableLearner(kind);
    await again.run({ resumeFrom: dir });
    expect(again.policy.parameters).toEqual(parameters);
    expectSameFiles(dir, expected);
  });

  it("says that its records are damaged, and writes whole lines after them", async () => {
    const { dir: source } = await whole(kind);
    const dir = folder();
    cpSync(source, dir, { recursive: true });
    truncateSync(join(dir, "events.jsonl"), 500);
    rmSync(join(dir, "metrics.jsonl"));
    const { warnings } = await tableLearner(kind).run({ resumeFrom: dir });
    expect(warnings.map(({ kind, message }) => `${kind} ${message.split(" ")[0]}`)).toEqual([
      "checkpoint-damaged events.jsonl",
      "checkpoint-damaged metrics.jsonl",
    ]);
    expect(lines(dir, "events.jsonl").at(-1)).toMatchObject({ type: "end" });
  });

  it("is split off with what is intact of it", async () => {
    const { dir: source } = await whole(kind);
    const [dir, target] = [folder(), folder()];
    cpSync(source, dir, { recursive: true });
    if (evaluates) {
      const best = String(bytes(dir, "checkpoints", "best"));
      if (best !== "step-000016") flipBit(join(dir, "checkpoints", best, "state.json"));
    }
    await forkRun(dir, target, "split");
    for (const name of readdirSync(join(target, "checkpoints"))) verifyManifest(join(target, "checkpoints", name));
    expect(existsSync(join(target, "checkpoints", "step-000016"))).toBe(true);
  });

  it("does not start again where it ended and its checkpoints were removed", async () => {
    const { dir: source } = await whole(kind);
    const [dir, before] = [folder(), folder()];
    cpSync(source, dir, { recursive: true });
    rmSync(join(dir, "checkpoints"), { recursive: true });
    cpSync(dir, before, { recursive: true });
    await expect(tableLearner(kind).run({ resumeFrom: dir, epochs: 5 })).rejects.toThrow(
      /its checkpoints were removed\. Start a new run from .*final/,
    );
    expectSameFiles(dir, before);
  });

  it("refuses to have fewer steps than it has done, and stays as it is", async () => {
    const { dir: source } = await whole(kind);
    const dir = folder();
    cpSync(source, dir, { recursive: true });
    await expect(tableLearner(kind).run({ resumeFrom: dir, epochs: 1 })).rejects.toThrow(
      /has done 16 steps, and is to do 4 in all.*more epochs/,
    );
    expectSameFiles(dir, source);
    expect(bytes(dir, "config.json").equals(bytes(source, "config.json"))).toBe(true);
    expect(readStatus(dir)).toEqual(readStatus(source));
  });

  it("goes on when a callback's state cannot be kept or put back", async () => {
    const { parameters } = await whole(kind);
    const dir = folder();
    const stop = new AbortController();
    const onStepEnd = ({ step }: { step: number }) => void (step === 5 && stop.abort());
    const fails = (): never => {
      throw new Error("no");
    };
    const callbacks = [{ state: fails }, { state: () => 1n }, { state: () => 1, restore: fails }];
    const first = await tableLearner(kind).run({ dir, callbacks: [...callbacks, { onStepEnd }], signal: stop.signal });
    expect(first).toMatchObject({ status: "interrupted", steps: 5 });
    expect(new Set(first.warnings.map(({ message }) => message))).toEqual(
      new Set([
        "A callback's state could not be kept: no",
        "A callback's state could not be kept: Do not know how to serialize a BigInt",
      ]),
    );
    const { policy, run } = tableLearner(kind);
    const { status, warnings } = await run({ resumeFrom: dir, callbacks });
    expect([status, warnings[0]!.message]).toEqual(["finished", "A callback's restore threw: no"]);
    expect(policy.parameters).toEqual(parameters);
  });

  it("stops early when a callback asks for it, and goes on when it is taken up again", async () => {
    const { parameters } = await whole(kind);
    const dir = folder();
    const logged: [number, string[]][] = [];
    const tracker: Tracker = {
      name: "seen",
      start() {},
      log: (step, metrics) => void logged.push([step, Object.keys(metrics).filter((name) => name.includes("/"))]),
      finish() {},
    };
    const first = await tableLearner(kind).run({
      dir,
      trackers: [tracker],
      callbacks: {
        onStepEnd({ step, stop }) {
          if (step === 5) stop("Good enough.");
        },
      },
    });
    expect(first).toMatchObject({ status: "stopped-early", steps: 5, reason: "Good enough." });
    expect(existsSync(first.finalDir!)).toBe(true);
    const evaluated = logged.filter(([, names]) => names.includes("held-out/loss")).map(([step]) => step);
    expect(evaluated).toEqual(evaluates ? [0, 3, 5] : []);
    expect(first.evaluations.map(({ step }) => step)).toEqual(evaluated);
    const { policy, run } = tableLearner(kind);
    expect(await run({ resumeFrom: dir })).toMatchObject({ status: "finished", steps: 16 });
    expect(policy.parameters).toEqual(parameters);
  });
});
