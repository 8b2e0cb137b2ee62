/** All measures, one after another: they share the machine. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { measureListeners } from "./listeners.ts";
import { measureLive } from "./live.ts";
import type { ManyRuns } from "./make-runs.ts";
import { measureMotion } from "./motion.ts";
import { measureAgainst } from "./peer.ts";
import type { DashboardRecord } from "./report.ts";
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

type Measured = Omit<DashboardRecord, "machine" | "date" | "load" | "browser">;

export async function measureAll(
  browser: Browser,
  folder: { runs: string; work: string },
  size: Size,
  { python, say = () => {} }: { python?: string | undefined; say?: (text: string) => void } = {},
): Promise<Measured> {
  const { runs, steps, overlaid, rounds } = size;
  const views = await measureViews(browser, folder, { overlaid, rounds });
  say(`Views: ${JSON.stringify(views)}`);
  const motion = await measureMotion(browser, { runs: folder.runs, cache: views.cache }, { steps, overlaid });
  say(`Frames: ${JSON.stringify(motion)}`);
  const against = await measureAgainst(browser, folder, { runs, steps, rounds, python });
  say(`First curves: ${JSON.stringify(against)}`);
  const training = join(folder.work, "training");
  mkdirSync(join(training, "runs"), { recursive: true });
  const live = await measureLive(browser, training, size.watchedSteps);
  say(`Live: ${JSON.stringify(live)}`);
  const listeners = await measureListeners(training, { fours: size.fours, blockSteps: size.blockSteps });
  const { cache: _, ...times } = views;
  return { ...{ runs, steps, overlaid, views: times, motion, against, live, listeners } };
}
