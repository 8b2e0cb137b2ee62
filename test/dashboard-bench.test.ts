import { mkdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { writeEventFiles } from "../benchmarks/dashboard/event-files.ts";
import { firstCurve } from "../benchmarks/dashboard/first-curve.ts";
import { slowerBy } from "../benchmarks/dashboard/listeners.ts";
import { makeManyRuns, nameOf } from "../benchmarks/dashboard/make-runs.ts";
import { merged } from "../benchmarks/dashboard/merge.ts";
import { trimmedMean } from "../benchmarks/dashboard/numbers.ts";
import { signIn } from "../benchmarks/dashboard/pages.ts";
import { memoryOf, startDashboard } from "../benchmarks/dashboard/processes.ts";
import { type DashboardRecord, linesOf, page } from "../benchmarks/dashboard/report.ts";
import { frameWork } from "../benchmarks/dashboard/trace.ts";
import { readRecords } from "../benchmarks/results.ts";
import { chromiumPath, launch } from "../packages/dashboard/test/support/chromium.ts";
import { createReader } from "../packages/stateset-agents/src/dashboard/read/create-reader.ts";
import { createRandom } from "../packages/stateset-agents/src/random.ts";
import { temporaryFolder } from "../packages/stateset-agents/test/temporary-folder.ts";

const at = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url));

it("docs/results/dashboard.md says what benchmarks/results/dashboard.json holds", () => {
  const records = readRecords<DashboardRecord>(at("benchmarks/results/dashboard.json"));
  expect(readFileSync(at("docs/results/dashboard.md"), "utf8")).toBe(page(records));
});

describe("parts that are measured again", () => {
  const [{ apart: _apart, ...old }] = Object.values(
    readRecords<DashboardRecord>(at("benchmarks/results/dashboard.json")),
  ) as [DashboardRecord];
  const now = { ...old, date: "2030-01-01", load: { before: 1, after: 2 }, browser: "200" };
  const occasion = { date: now.date, load: now.load, browser: now.browser };

  it("replace their own numbers and no others", () => {
    const listeners = { ...old.listeners, slower: 0.5 };
    const record = merged(old, now, { listeners })!;
    expect(record).toEqual({ ...old, listeners, apart: { listeners: occasion } });
    expect(page({ it: record })).toContain("Measured apart: listeners, Chromium 200, 2030-01-01; load 1.0 → 2.0.");
    // And the rest after them.
    const { against: _, listeners: __, ...rest } = old;
    expect(merged(record, { ...now, date: "2031-01-01" }, rest)!.apart).toMatchObject({ listeners: occasion });
    expect(merged(undefined, now, { listeners })).toBeUndefined();
  });

  it("do not lose TensorBoard's numbers to a run without it", () => {
    const { tensorBoard, ...alone } = old.against;
    expect(tensorBoard).toBeDefined();
    const { views, motion, live, listeners } = old;
    const record = merged(old, now, { views, motion, live, listeners, against: { ...alone, serverMemory: 399 } })!;
    expect(record.date).toBe(now.date);
    expect(record.against).toEqual(old.against);
    expect(record.apart).toEqual({ against: { date: old.date, load: old.load, browser: old.browser } });
  });

  it("say what the server held at its most, whatever it was asked for", () => {
    const { views, motion, against, overlaid } = old;
    const lines = linesOf({
      ...{ overlaid, views },
      motion: { ...motion, serverMemory: 300 },
      against: { ...against, serverMemory: 401 },
    });
    expect(lines.find(({ what }) => what === "memory of the server")).toMatchObject({
      value: 401,
      about: expect.stringMatching(/while indexing \S+, .* 300, with all runs compared 401$/),
    });
  });
});

it("the work of a frame is that of the tasks from one that was drawn to the next", () => {
  const frame = (ts: number) => ({ name: "AnimationFrame::Render", ph: "b", pid: 1, tid: 1, ts });
  const task = (ts: number, dur: number, tdur: number, tid = 1) => ({
    name: "RunTask",
    ph: "X",
    pid: 1,
    tid,
    ts,
    dur,
    tdur,
  });
  const events = [
    ...[task(0, 5000, 5000), frame(10_500), task(10_000, 4000, 3000), task(15_000, 2000, 1000)],
    ...[task(15_000, 90_000, 90_000, 2), frame(26_500), task(26_000, 9000, 7000)],
  ];
  expect(frameWork(events)).toEqual({
    ...{ frames: 2, median: 7, p99: 7, longest: 7 },
    ...{ longestByClock: 9, longestTask: 7 },
  });
});

describe("what listeners cost", () => {
  /** Blocks A B B A of two steps, where a step takes what `of` says. */
  const measured = (fours: number, of: (step: number, isWith: boolean) => number) => {
    const blocks = Array.from({ length: 4 * fours }, (_, i) => {
      const isWith = (i % 4 === 0 || i % 4 === 3) === (i >> 2) % 2 > 0;
      return { with: isWith, from: 2 * i + 1, to: 2 * i + 2 };
    });
    return slowerBy(blocks, (from, to) => {
      const isWith = blocks.find((block) => block.from === from)!.with;
      return of(from, isWith) + of(to, isWith);
    });
  };

  it("is found below a drift that is many times larger", () => {
    const { slower, interval } = measured(20, (step, isWith) => 100 * Math.exp(-step / 100) * (isWith ? 1.01 : 1));
    expect(slower).toBeCloseTo(0.01, 9);
    expect(interval[1] - interval[0]).toBeLessThan(1e-9);
  });

  it("lies in an interval that holds nothing where nothing is there", () => {
    const noise = createRandom(7);
    const { interval } = measured(40, () => 100 + 20 * noise.next());
    expect(interval[0]).toBeLessThan(0);
    expect(interval[1]).toBeGreaterThan(0);
    expect(interval[1] - interval[0]).toBeGreaterThan(0.005);
  });

  it("lies in its interval 19 times of 20, also where the machine now and then does something else for long", () => {
    const noise = createRandom(11);
    const normal = () => Math.sqrt(-2 * Math.log(1 - noise.next())) * Math.cos(2 * Math.PI * noise.next());
    let held = 0;
    for (let round = 0; round < 1000; round++) {
      const values = Array.from({ length: 40 }, () => 1 + normal() * (noise.next() < 0.1 ? 10 : 1));
      const { mean, half } = trimmedMean(values, 0.2);
      if (Math.abs(mean - 1) <= half) held++;
    }
    expect(held).toBeGreaterThan(930);
    expect(held).toBeLessThan(970);
  });
});

describe("many runs", () => {
  const folder = temporaryFolder();
  const runs = `${folder}/runs`;
  let browser: Browser | undefined;
  beforeAll(async () => {
    mkdirSync(runs);
    await makeManyRuns(runs, { runs: 3, steps: 100, trajectories: 40, longTokens: 1000 });
    if (chromiumPath) browser = await launch();
  });
  afterAll(() => browser?.close());

  it("are read as runs without a problem", async () => {
    const reader = createReader({ folders: [runs], cacheDir: `${folder}/cache` });
    const { rows, problems } = await reader.runs({});
    expect([problems, rows.map(({ key, problems: own }) => [key, own])]).toEqual([
      [],
      [2, 1, 0].map((run) => [nameOf(run), []]),
    ]);
    const { total } = await reader.trajectories(nameOf(0), {});
    expect(total).toBe(41);
    await reader.close();
  });

  it("are written as event files", () => {
    writeEventFiles(runs, `${folder}/logs`);
    const bytes = readFileSync(`${folder}/logs/${nameOf(0)}/events.out.tfevents.1790000000.bench.1.0`);
    // A record a step, each with its tag, and the head.
    expect(bytes.toString("latin1").split("reward").length - 1).toBe(100);
  });

  it.skipIf(!chromiumPath)(
    "are drawn by the command's page, whose first curve is found",
    async () => {
      const server = await startDashboard(runs, `${folder}/cache-of-command`);
      try {
        const cookies = await signIn(browser!, server);
        const place = `${server.url}/ui/#/compare?runs=${nameOf(0)},${nameOf(1)}`;
        const found = await firstCurve(browser!, place, ".chart-box", cookies);
        expect(found.ms).toBeGreaterThan(0);
        expect(found.bytes).toBeGreaterThan(found.dataBytes);
        expect(found.dataBytes).toBeGreaterThan(1000);
        if (process.platform === "linux") expect(memoryOf(server.pid).most).toBeGreaterThan(10);
      } finally {
        await server.end();
      }
      // Longer than what is waited for in it.
    },
    120_000,
  );
});
