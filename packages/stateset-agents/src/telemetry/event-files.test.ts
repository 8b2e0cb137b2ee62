import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it, type TestContext, vi } from "vitest";
import { isMetricName } from "../run/metrics.ts";
import type { Tracker } from "../run/tracker.ts";
import { tableLearner } from "../test-support/table-learners.ts";
import { FunctionReward, politeShare, quickRun, tableAgent } from "../test-support/table-training.ts";
import { train } from "../training/train.ts";
import { crc32, crc32c } from "./crc32.ts";
import { tensorBoardTracker, tfRecord } from "./tensorboard.ts";
import { wandbTracker } from "./wandb.ts";

interface WandbItem {
  key: string;
  value_json: string;
}
interface WandbRecord {
  type: string;
  history?: { item: WandbItem[] };
  summary?: { update: WandbItem[] };
}

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "event-files-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** Runs one of readers/*.py; skips the test, saying why, where Python or the package is missing. */
function readWithPython(context: TestContext, reader: string, path: string): unknown {
  const python = process.env.STATESET_PYTHON;
  if (!python) return context.skip("STATESET_PYTHON is not set");
  const script = fileURLToPath(new URL(`./readers/${reader}`, import.meta.url));
  const result = spawnSync(python, [script, path], { encoding: "utf8", maxBuffer: 1 << 26 });
  if (result.status === 3) return context.skip(`not installed for STATESET_PYTHON: ${result.stderr.trim()}`);
  if (result.status !== 0) throw new Error(result.stderr);
  return JSON.parse(result.stdout);
}

/** The program in the wandb package that reads and uploads .wandb files. */
function wandbCore(): string | undefined {
  const python = process.env.STATESET_PYTHON;
  if (!python) return undefined;
  const find =
    "import importlib.util as u; s = u.find_spec('wandb'); print(s.submodule_search_locations[0] if s else '')";
  const core = join(spawnSync(python, ["-c", find], { encoding: "utf8" }).stdout.trim(), "bin", "wandb-core");
  return existsSync(core) ? core : undefined;
}

describe("checksums", () => {
  it("match the published check values", () => {
    const check = new TextEncoder().encode("123456789");
    expect(crc32(check)).toBe(0xcbf43926);
    expect(crc32c(check)).toBe(0xe3069283);
    expect(crc32(check.subarray(4), crc32(check.subarray(0, 4)))).toBe(0xcbf43926);
  });
});

/** A short real run with an evaluation before, one after every step, and one at the end. */
async function trackedRun(tracker: Tracker) {
  const { run } = await train({
    ...quickRun,
    agent: tableAgent().agent,
    reward: new FunctionReward(politeShare),
    heldOut: Array.from({ length: 10 }, (_, i) => ({ id: `held-${i}`, userResponses: ["help card"] })),
    evaluation: { every: 1 },
    steps: 3,
    dir,
    trackers: [tracker],
  });
  expect(run.warnings).toEqual([]);
  const { before, after } = run.evaluation!;
  const curve = run.metrics.slice(1);
  return {
    report: [
      [0, before.reward.mean],
      [3, after!.reward.mean],
    ],
    reward: curve.map(({ step, reward }) => [step, reward]),
    selection: run.metrics.map((record) => [record.step, record["selection/reward"]]),
  };
}

describe("tensorBoardTracker", () => {
  const config = { algorithm: "grpo", learningRate: 1e-5 };

  it("frames each event as a TFRecord with masked checksums", () => {
    // The bytes that TensorBoard's own RecordWriter gives for the record b"abc".
    const record = tfRecord(new TextEncoder().encode("abc"));
    expect(Buffer.from(record).toString("hex")).toBe("0300000000000000b099490e6162636e57f121");
  });

  it("is read by TensorBoard", async (context) => {
    const tracker = tensorBoardTracker();
    await tracker.start({ id: "run", dir, config });
    for (let step = 1; step <= 5; step++) await tracker.log(step, { reward: step / 4, kl: 0.5 });
    await tracker.finish({ status: "finished", steps: 5 });
    const read = readWithPython(context, "read_tensorboard.py", join(dir, "tensorboard")) as {
      scalars: Record<string, [number, number][]>;
      tensors: Record<string, string[]>;
    };
    expect(read.scalars.reward).toEqual([
      [1, 0.25],
      [2, 0.5],
      [3, 0.75],
      [4, 1],
      [5, 1.25],
    ]);
    expect(read.scalars.kl).toHaveLength(5);
    expect(read.tensors.config?.[0]).toContain('"algorithm": "grpo"');
  });

  it("shows a run of SFT, with its evaluations before the first step and after the last", async (context) => {
    const run = join(dir, "run");
    await tableLearner("sft").run({ dir: run, trackers: [tensorBoardTracker()] });
    const read = readWithPython(context, "read_tensorboard.py", join(run, "tensorboard")) as {
      scalars: Record<string, [number, number][]>;
    };
    expect(read.scalars.loss!.map(([step]) => step)).toEqual(Array.from({ length: 16 }, (_, i) => i + 1));
    expect(read.scalars["held-out/loss"]!.map(([step]) => step)).toEqual([0, 3, 6, 9, 12, 15, 16]);
  });

  it("drops what a killed run had logged beyond the checkpoint it resumes from", async (context) => {
    vi.useFakeTimers({ toFake: ["Date"], now: 1_700_000_000_098 });
    const first = tensorBoardTracker();
    await first.start({ id: "run", dir, config });
    for (let step = 1; step <= 4; step++) await first.log(step, { reward: -step });
    // In the same second, with a number of milliseconds that has a digit more.
    vi.setSystemTime(1_700_000_000_105);
    const second = tensorBoardTracker();
    await second.start({ id: "run", dir, config, resumedAfter: 2 });
    vi.useRealTimers();
    for (let step = 3; step <= 4; step++) await second.log(step, { reward: step });
    const read = readWithPython(context, "read_tensorboard.py", join(dir, "tensorboard")) as {
      scalars: Record<string, unknown>;
    };
    expect(read.scalars.reward).toEqual([
      [1, -1],
      [2, -2],
      [3, 3],
      [4, 4],
    ]);
  });
});

it("TensorBoard shows the evaluations before and after a run", async (context) => {
  const wrote = await trackedRun(tensorBoardTracker());
  const read = readWithPython(context, "read_tensorboard.py", join(dir, "tensorboard")) as {
    scalars: Record<string, [number, number][]>;
  };
  const rounded = (points: unknown[][]) => points.map(([step, value]) => [step, Math.fround(value as number)]);
  expect(read.scalars["report/reward"]).toEqual(rounded(wrote.report));
  expect(read.scalars["selection/reward"]).toEqual(rounded(wrote.selection));
  expect(read.scalars.reward).toEqual(rounded(wrote.reward));
  expect(Object.keys(read.scalars).filter((name) => !isMetricName(name))).toEqual([]);
});

describe("wandbTracker", () => {
  const file = () => {
    const [run] = readdirSync(join(dir, "wandb"));
    return join(dir, "wandb", run!, `run-${run!.split("-").slice(3).join("-")}.wandb`);
  };

  it("is parsed by wandb's own messages, across block borders", async (context) => {
    const tracker = wandbTracker({ project: "tests" });
    // The long value makes a record of three pieces.
    await tracker.start({ id: "polite agent/1", dir, config: { learningRate: 1e-5, prompt: "x".repeat(70_000) } });
    for (let step = 1; step <= 900; step++) await tracker.log(step, { reward: step / 2, kl: Number.NaN });
    await tracker.finish({ status: "finished", steps: 900 });
    expect(readFileSync(file()).length).toBeGreaterThan(3 * 32_768);

    const records = readWithPython(context, "read_wandb.py", file()) as { type: string; num: string; run?: unknown }[];
    expect(records.map((record) => Number(record.num))).toEqual(records.map((_, i) => i + 1));
    expect(records[1]).toMatchObject({
      type: "run",
      run: { run_id: "polite-agent-1", project: "tests", display_name: "polite agent/1" },
    });
    expect(records[1]!.run).toHaveProperty("config.update.1.value_json", JSON.stringify("x".repeat(70_000)));
    const history = records.filter((record) => record.type === "history");
    expect(history).toHaveLength(900);
    expect(history[9]).toMatchObject({
      history: {
        step: { num: "10" },
        item: [{ key: "reward", value_json: "5" }, { key: "kl", value_json: '"NaN"' }, { key: "_step" }, {}, {}],
      },
    });
    expect(records.slice(-3).map((record) => record.type)).toEqual(["summary", "exit", "footer"]);
  });

  it("shows the evaluations before and after a run, in one row a step", async (context) => {
    const wrote = await trackedRun(wandbTracker());
    const records = readWithPython(context, "read_wandb.py", file()) as WandbRecord[];
    const rows = records.flatMap(({ history }) =>
      history ? [Object.fromEntries(history.item.map(({ key, value_json }) => [key, JSON.parse(value_json)]))] : [],
    );
    expect(rows.map((row) => row._step)).toEqual([0, 1, 2, 3]);
    const points = (name: string) => rows.filter((row) => name in row).map((row) => [row._step, row[name]]);
    expect(points("report/reward")).toEqual(wrote.report);
    expect(points("selection/reward")).toEqual(wrote.selection);
    expect(points("reward")).toEqual(wrote.reward);
    const summary = records.find(({ type }) => type === "summary")?.summary?.update;
    expect(summary).toContainEqual({ key: "report/reward", value_json: JSON.stringify(wrote.report[1]![1]) });
    const known = (name: string) => isMetricName(name) || name.startsWith("_");
    expect(rows.flatMap((row) => Object.keys(row)).filter((name) => !known(name))).toEqual([]);
  });

  it("is read by wandb's own offline reader", async (context) => {
    const core = wandbCore();
    if (core === undefined)
      return context.skip("needs STATESET_PYTHON with wandb 0.31 or newer (wandb-core leet inspect)");
    const tracker = wandbTracker({ project: "tests" });
    await tracker.start({ id: "run-1", dir, config: { prompt: "x".repeat(70_000) } });
    for (let step = 1; step <= 300; step++) await tracker.log(step, { reward: step / 8 });
    await tracker.finish({ status: "finished", steps: 300 });
    const inspected = spawnSync(core, ["leet", "inspect", "--run-file", file(), dir], {
      encoding: "utf8",
      maxBuffer: 1 << 26,
    });
    expect(inspected.status).toBe(0);
    expect(inspected.stdout).toMatch(/run_id: {1,2}"run-1"/);
    expect(inspected.stdout.match(/^# record \d+: history/gm)).toHaveLength(300);
    expect(inspected.stdout).toMatch(/# record 305: footer/);
  });
});
