/** Onlookers of a real run: whatever they do, the run comes out the same. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { Tracker } from "../run/tracker.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import type { TrainingCallbacks } from "../training/callbacks.ts";
import { watchHealth } from "../training/diagnostics/watch.ts";
import { train } from "../training/train.ts";
import { alertWith } from "./alerts.ts";
import { consoleTracker } from "./console-tracker.ts";
import { fileTracker } from "./file-tracker.ts";
import { tensorBoardTracker } from "./tensorboard.ts";
import { wandbTracker } from "./wandb.ts";

const root = mkdtempSync(join(tmpdir(), "onlookers-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function run(
  name: string,
  onlookers: { trackers?: Tracker[]; callbacks?: TrainingCallbacks[] },
  own: { heldOut?: { id: string; userResponses: string[] }[] } = {},
): Promise<string> {
  await train({
    agent: tableAgent().agent,
    environment: tableEnvironment(),
    reward: new FunctionReward(politeShare),
    name,
    dir: join(root, name),
    steps: 4,
    groupsPerStep: 2,
    groupSize: 4,
    learningRate: 0.1,
    ...onlookers,
    ...own,
  });
  return readFileSync(join(root, name, "metrics.jsonl"), "utf8");
}

describe("a run", () => {
  it("does not feel trackers and alerts that fail", async () => {
    const broken: Tracker = {
      name: "broken",
      start: () => Promise.reject(new Error("no")),
      log: () => {
        throw new Error("no");
      },
      finish: () => Promise.reject(new Error("no")),
    };
    const warnings: string[] = [];
    const alerts = alertWith({ command: "exit 1", webhook: "http://127.0.0.1:9/" }, (message) =>
      warnings.push(message),
    );
    const callbacks = [alerts, watchHealth()];
    expect(await run("watched", { trackers: [broken], callbacks })).toBe(await run("alone", {}));
    expect(warnings.filter((warning) => warning.startsWith("The finished alert"))).toHaveLength(2);
  });

  it("gives every step to the trackers that work", async () => {
    const lines: string[] = [];
    const path = join(root, "numbers.jsonl");
    await run("tracked", {
      trackers: [
        fileTracker({ path }),
        consoleTracker({ every: 2, metrics: ["reward"], write: (line) => lines.push(line) }),
      ],
    });
    const records = readFileSync(path, "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(records.map(({ type, step }) => [type, step])).toEqual([
      ["start", undefined],
      ["step", 1],
      ["step", 2],
      ["step", 3],
      ["step", 4],
      ["end", undefined],
    ]);
    expect(records.at(-1)).toMatchObject({ status: "finished", steps: 4 });
    expect(lines[0]).toBe("run tracked");
    expect(lines[1]).toMatch(/^step 2 {2}reward \d/);
    expect(lines.at(-1)).toBe("finished after 4 steps");
  });

  it("is tracked by no tracker with an option that is misspelt or no option at all", () => {
    expect(() => wandbTracker({ projet: "a" } as never)).toThrow(/"projet" in wandbTracker\. Did you mean "project"/);
    expect(() => tensorBoardTracker("runs" as never)).toThrow(/tensorBoardTracker/);
    expect(() => fileTracker({ file: "a" } as never)).toThrow(/fileTracker/);
    expect(() => consoleTracker({ every: 0 })).toThrow(/consoleTracker\.every/);
  });

  it("is printed with its reward and its evaluations, or with its loss where it has no reward", async () => {
    const lines: string[] = [];
    const write = (line: string) => void lines.push(line);
    const heldOut = [{ id: "held", userResponses: ["help card"] }];
    await run("printed", { trackers: [consoleTracker({ every: 3, write })] }, { heldOut });
    expect(lines.map((line) => line.replace(/-?\d+\.\d+(e-\d+)?/g, "#"))).toEqual([
      "run printed",
      "step 0  report/reward #",
      "step 0  selection/reward #",
      "step 3  reward #  entropy #",
      "step 4  selection/reward #",
      "step 4  report/reward #",
      "finished after 4 steps",
    ]);
    const onData: string[] = [];
    const tracker = consoleTracker({ write: (line) => onData.push(line) });
    await tracker.log(1, { loss: 0.5, gradNorm: 2 });
    await tracker.log(1, { "held-out/loss": 0.25, "held-out/perplexity": 3 });
    await tracker.finish({ status: "failed", steps: 1, error: "no disk\n    at write (a.js:1)" });
    expect(onData).toEqual(["step 1  loss 0.5000", "step 1  held-out/loss 0.2500", "failed after 1 step: no disk"]);
  });
});
