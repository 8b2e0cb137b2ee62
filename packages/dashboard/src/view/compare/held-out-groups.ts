/** Results on what was held out, those together that can stand on one scale. */
import type { CompareData } from "../../../../stateset-agents/src/dashboard/api/index.ts";

type HeldOutRun = CompareData["heldOut"][number];

export interface HeldOutGroup {
  words: string;
  lowerIsBetter: boolean;
  runs: HeldOutRun[];
}

const rewards: Readonly<Record<string, string>> = {
  "report/reward": "reward, on scenarios that are only looked at",
  "selection/reward": "reward, on scenarios that chose the checkpoint",
};

/** Runs that were not evaluated are in none. */
export function heldOutGroups(runs: readonly HeldOutRun[]): HeldOutGroup[] {
  const groups = new Map<string, HeldOutGroup>();
  for (const run of runs) {
    if (run.metric === null) continue;
    const reward = rewards[run.metric];
    // Each way of learning from data has a loss of its own.
    const words = reward ?? `loss of ${run.algorithm}, on held-out data: lower is better`;
    const group = groups.get(words) ?? { words, lowerIsBetter: reward === undefined, runs: [] };
    groups.set(words, group);
    group.runs.push(run);
  }
  return [...groups.values()];
}
