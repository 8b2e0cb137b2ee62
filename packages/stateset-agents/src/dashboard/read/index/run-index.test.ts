import {
  appendFileSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { beforeEach, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../../test/temporary-folder.ts";
import { flipBit } from "../../../test-support/run-folder.ts";
import { RunIndex } from "./run-index.ts";

const root = temporaryFolder();
let dir: string;
let cache: string;
let number = 0;
beforeEach(() => {
  dir = join(root, `run-${++number}`);
  cache = join(root, `cache-${number}`);
  mkdirSync(dir);
});

const line = (step: number, reward = step / 10) => `${JSON.stringify({ step, reward, sampledTokens: 100 })}\n`;
const lines = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => line(from + i)).join("");
const metrics = () => join(dir, "metrics.jsonl");
const evaluation = (step: number, mean: number) =>
  `${JSON.stringify({ seq: step, step, type: "evaluation", set: "report", reward: { mean, count: 5 } })}\n`;

async function read(index: RunIndex) {
  const { metrics: table } = await index.tables();
  return {
    steps: [...table.steps.subarray(0, table.rows)],
    rewards: [...(table.get("reward")?.values.subarray(0, table.rows) ?? [])],
  };
}
/** What one that knows nothing says. */
const anew = () => read(new RunIndex(dir, join(root, `other-${++number}`)));

describe("the index of a run", () => {
  it("grows by what was appended, whole lines alone", async () => {
    const index = new RunIndex(dir, cache);
    expect(await read(index)).toEqual({ steps: [], rewards: [] });
    writeFileSync(metrics(), lines(1, 5) + line(6).slice(0, 9));
    expect((await read(index)).steps).toEqual([1, 2, 3, 4, 5]);
    appendFileSync(metrics(), line(6).slice(9) + lines(7, 9));
    expect(await read(index)).toEqual(await anew());
    expect((await index.summary()).step).toBe(9);
    expect(index.generation).toBe(0);
  });

  it("is kept, and taken up by another process where it stood", async () => {
    writeFileSync(metrics(), lines(1, 300));
    writeFileSync(join(dir, "events.jsonl"), evaluation(0, 0.25));
    const first = new RunIndex(dir, cache);
    const summary = await first.summary();
    first.release();
    appendFileSync(metrics(), lines(301, 310));
    appendFileSync(join(dir, "events.jsonl"), evaluation(310, 0.75));
    const second = new RunIndex(dir, cache);
    expect(await read(second)).toEqual(await anew());
    expect(summary.step).toBe(300);
    expect((await second.heldOut()).report).toMatchObject({ before: { mean: 0.25 }, after: { mean: 0.75 } });
  });

  it("has the marks of a run without reading its events again, those that came since, and none that were cut off", async () => {
    const events = join(dir, "events.jsonl");
    const step = '{"seq":1,"step":1,"type":"step"}\n';
    writeFileSync(events, evaluation(0, 0.25) + step.repeat(50) + evaluation(1, 0.5));
    utimesSync(events, 1e9, 1e9);
    const first = new RunIndex(dir, cache);
    const means = async (index: RunIndex) =>
      (await index.events()).events.map(({ reward }) => (reward as { mean: number }).mean);
    expect(await means(first)).toEqual([0.25, 0.5]);
    first.release();
    // The same file to all that looks at it, but for what only reading would tell.
    const file = openSync(events, "r+");
    writeSync(file, "x".repeat(step.length - 1), evaluation(0, 0.25).length + 40 * step.length);
    closeSync(file);
    utimesSync(events, 1e9, 1e9);
    const second = new RunIndex(dir, cache);
    expect(await means(second)).toEqual([0.25, 0.5]);
    expect((await second.events()).problems).toEqual([]);
    appendFileSync(events, evaluation(2, 0.75));
    expect(await means(second)).toEqual([0.25, 0.5, 0.75]);
    truncateSync(events, evaluation(0, 0.25).length);
    expect(await means(second)).toEqual([0.25]);
    expect((await second.heldOut()).report).toMatchObject({ before: { mean: 0.25 }, after: null });
  });

  it("is right where another dashboard wrote it between two looks", async () => {
    writeFileSync(metrics(), lines(1, 300));
    const [early, late] = [new RunIndex(dir, cache), new RunIndex(dir, cache)];
    await read(early);
    early.release();
    const reader = new RunIndex(dir, cache);
    appendFileSync(metrics(), lines(301, 310));
    await read(late);
    late.release();
    appendFileSync(metrics(), lines(311, 312));
    expect(await read(reader)).toEqual(await anew());
    expect(await read(early)).toEqual(await anew());
  });

  it("is not let go of while it is read", async () => {
    writeFileSync(metrics(), lines(1, 10));
    const index = new RunIndex(dir, cache);
    await read(index);
    index.release();
    // More than is read in one piece.
    appendFileSync(metrics(), lines(11, 40_000));
    const reading = read(index);
    await setImmediate();
    index.release();
    expect((await reading).steps.length).toBe(40_000);
    index.release();
    expect((await read(index)).steps.length).toBe(40_000);
  });

  it("is cut back with its run, and says to where", async () => {
    const index = new RunIndex(dir, cache);
    writeFileSync(metrics(), lines(1, 20));
    await read(index);
    truncateSync(metrics(), lines(1, 8).length);
    expect((await read(index)).steps.at(-1)).toBe(8);
    expect([index.generation, index.cutTo]).toEqual([1, 8]);
    // Cut, and grown beyond where it stood before anybody looked.
    writeFileSync(metrics(), lines(1, 5) + Array.from({ length: 30 }, (_, i) => line(6 + i, -1)).join(""));
    expect(await read(index)).toEqual(await anew());
    expect([index.generation, index.cutTo]).toEqual([2, 5]);
  });

  it("notices a file that another was put in the place of, and one that is gone", async () => {
    const index = new RunIndex(dir, cache);
    writeFileSync(metrics(), lines(1, 20));
    await read(index);
    writeFileSync(`${metrics()}.new`, lines(50, 69));
    renameSync(`${metrics()}.new`, metrics());
    expect((await read(index)).steps[0]).toBe(50);
    rmSync(metrics());
    expect((await read(index)).steps).toEqual([]);
  });

  it("is made anew where what was kept is damaged, of another version, or of another run", async () => {
    writeFileSync(metrics(), lines(1, 50));
    const expected = await anew();
    const kept = async () => {
      const index = new RunIndex(dir, cache);
      const seen = await read(index);
      index.release();
      expect(seen).toEqual(expected);
    };
    await kept();
    const file = join(cache, readdirSync(cache)[0]!);
    const good = readFileSync(file);
    flipBit(file);
    await kept();
    for (const bad of [
      good.subarray(0, 10),
      good.subarray(0, good.length - 3),
      Buffer.concat([good, good]),
      Buffer.alloc(0),
    ]) {
      writeFileSync(file, bad);
      await kept();
    }
    const later = Buffer.from(good);
    later.writeUInt32LE(99, 4);
    writeFileSync(file, later);
    await kept();
  });

  it("does without a folder to be kept in", async () => {
    writeFileSync(metrics(), lines(1, 5));
    const file = join(root, `file-${number}`);
    writeFileSync(file, "");
    const index = new RunIndex(dir, join(file, "below"));
    expect((await read(index)).steps.length).toBe(5);
    index.release();
    expect((await read(index)).steps.length).toBe(5);
  });

  it("names lines that are no records", async () => {
    writeFileSync(metrics(), `${line(1)}{"step":2,\n${line(3)}`);
    writeFileSync(join(dir, "events.jsonl"), '{"seq":0,"step":1,"type":"step","metr\n{"seq":1,"step":1,"type":"warn\n');
    const index = new RunIndex(dir, cache);
    expect((await read(index)).steps).toEqual([1, 3]);
    expect(index.problems()).toEqual([
      { where: "metrics.jsonl, line 2", message: "is no JSON" },
      { where: "events.jsonl, line 2", message: "is no JSON object" },
    ]);
  });
});
