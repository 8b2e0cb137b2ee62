/** The measures, one after another: they share the machine. */
import { mkdirSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { measureListeners } from "./listeners.ts";
import { measureLive } from "./live.ts";
import type { ManyRuns } from "./make-runs.ts";
import { measureMotion } from "./motion.ts";
import { measureAgainst } from "./peer.ts";
import type { Part, Parts } from "./report.ts";
import { measureViews } from "./views.ts";

export interface Size extends ManyRuns {
  overlaid: number;
  rounds: number;
  /** Of the training that is watched. */
  watchedSteps: number;
  /** Of the one that is listened to: blocks of so many steps, four at a time. */
  fours: number;
  blockSteps: number;
}

export const full: Size = {
  ...{ runs: 50, steps: 10_000, trajectories: 5000, longTokens: 100_000, overlaid: 8, rounds: 3 },
  ...{ watchedSteps: 8, fours: 160, blockSteps: 4 },
};

export const quick: Size = {
  ...{ runs: 5, steps: 1000, trajectories: 200, longTokens: 5000, overlaid: 4, rounds: 1 },
  ...{ watchedSteps: 3, fours: 2, blockSteps: 2 },
};

/** Those that look at the many runs, which are made for them. */
export const ofManyRuns: readonly Part[] = ["views", "motion", "against"];

export async function measureAll(
  browser: Browser,
  folder: { runs: string; work: string },
  size: Size,
  {
    only,
    python,
    say = () => {},
  }: { only: readonly Part[]; python?: string | undefined; say?: (text: string) => void },
): Promise<Partial<Parts>> {
  const { runs, steps, overlaid, rounds } = size;
  const measured: Partial<Parts> = {};
  const measure = async <P extends Part>(part: P, how: () => Promise<Parts[P]>) => {
    if (!only.includes(part)) return;
    measured[part] = await how();
    say(`${part}: ${JSON.stringify(measured[part])}`);
  };
  // What indexing took is part of the views; whoever scrolls finds an index.
  let cache = mkdtempSync(join(folder.work, "cache-"));
  await measure("views", async () => {
    const { cache: warm, ...views } = await measureViews(browser, folder, { overlaid, rounds });
    cache = warm;
    return views;
  });
  await measure("motion", () => measureMotion(browser, { runs: folder.runs, cache }, { steps, overlaid }));
  await measure("against", () => measureAgainst(browser, folder, { runs, steps, rounds, python }));
  const training = join(folder.work, "training");
  mkdirSync(join(training, "runs"), { recursive: true });
  await measure("live", () => measureLive(browser, training, size.watchedSteps));
  await measure("listeners", () => measureListeners(training, { fours: size.fours, blockSteps: size.blockSteps }));
  return measured;
}
