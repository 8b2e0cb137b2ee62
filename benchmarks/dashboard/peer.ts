/** The same curves in TensorBoard, in turns. */
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Browser } from "playwright-core";
import { tag, writeEventFiles } from "./event-files.ts";
import { type FirstCurve, firstCurve } from "./first-curve.ts";
import { nameOf } from "./make-runs.ts";
import { median } from "./numbers.ts";
import { signIn } from "./pages.ts";
import { memoryOf, type Server, startDashboard, startTensorBoard } from "./processes.ts";

export interface Side {
  warm: FirstCurve[];
  /** From the start of the command, with nothing read before, to the curve. */
  coldMs: number;
}

export interface Against {
  ours: Side;
  /** Absent without a Python that has it. */
  tensorBoard?: Side;
  /** MiB of our server at its most. Absent in records from before it was looked at. */
  serverMemory?: number;
}

const ourChart = ".chart-box";
const theirChart = "scalar-card line-chart";

export async function measureAgainst(
  browser: Browser,
  folder: { runs: string; work: string },
  { runs, steps, rounds, python }: { runs: number; steps: number; rounds: number; python?: string | undefined },
): Promise<Against> {
  const cache = mkdtempSync(join(folder.work, "cache-"));
  const place = `/ui/#/compare?runs=${Array.from({ length: runs }, (_, i) => nameOf(i)).join(",")}`;
  let began = performance.now();
  const ours = await startDashboard(folder.runs, cache);
  let theirs: Server | undefined;
  try {
    const cookies = await signIn(browser, ours);
    const started = performance.now() - began;
    const cold = await firstCurve(browser, ours.url + place, ourChart, cookies);
    const own: Side = { warm: [], coldMs: started + cold.ms };
    if (!python) {
      for (let round = 0; round < rounds; round++)
        own.warm.push(await firstCurve(browser, ours.url + place, ourChart, cookies));
      return { ours: own, serverMemory: memoryOf(ours.pid).most };
    }
    const logs = join(folder.work, "logs");
    writeEventFiles(folder.runs, logs);
    began = performance.now();
    theirs = await startTensorBoard(python, logs);
    await allRead(theirs.url, runs, steps);
    const read = performance.now() - began;
    const their: Side = { warm: [], coldMs: 0 };
    for (let round = 0; round < rounds; round++) {
      their.warm.push(await firstCurve(browser, `${theirs.url}/#timeseries`, theirChart));
      own.warm.push(await firstCurve(browser, ours.url + place, ourChart, cookies));
    }
    // Its page shows what was read when it was opened, so it is opened then.
    their.coldMs = read + median(their.warm.map(({ ms }) => ms));
    return { ours: own, tensorBoard: their, serverMemory: memoryOf(ours.pid).most };
  } finally {
    await Promise.all([ours.end(), theirs?.end()]);
  }
}

async function allRead(url: string, runs: number, steps: number): Promise<void> {
  const waiting = new Set(Array.from({ length: runs }, (_, i) => nameOf(i)));
  for (let tries = 0; waiting.size > 0; tries++) {
    if (tries > 1200) throw new Error("TensorBoard did not read all runs.");
    for (const run of waiting) {
      const query = new URLSearchParams({ run, tag });
      const answer = await fetch(`${url}/data/plugin/scalars/scalars?${query}`);
      const points = answer.ok ? ((await answer.json()) as [number, number, number][]) : [];
      if (points.at(-1)?.[1] !== steps) break;
      waiting.delete(run);
    }
    await sleep(50);
  }
}
