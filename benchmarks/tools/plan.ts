/** Which runs there are, the most important first, so that what a machine has time for says most. */

import { defaultsStamp, starterRate } from "../defaults.ts";
import { settingsHash } from "../parallel.ts";
import type { ToolsJob } from "./learn.ts";
import {
  type DomainName,
  domains,
  environmentOf,
  type Level,
  measuredConstrained,
  measuredElsewhere,
  samples,
  sizesOf,
  type Way,
  type WayName,
  ways,
} from "./task.ts";

export const starter = "starter";
/** Tasks and settings were tried out with seeds 1 to 3 and 11; that twice as many steps are enough, with seed 21. */
export const pageSeeds = [21, 22, 23];
export const longSeeds = [31, 32, 33];

interface Part {
  domain: DomainName;
  level: Level;
  ways: readonly WayName[];
  /** In place of those that are asked for. */
  seeds?: readonly number[];
}

/** Both domains, with what the first level is compared with; then the harder levels as they are, once. */
const parts: readonly Part[] = [
  { domain: "retail", level: 1, ways: ["untrained", "grpo"] },
  { domain: "retail", level: 1, ways: ["grpo-long"], seeds: longSeeds },
  { domain: "booking", level: 1, ways: ["untrained", "grpo", "flipped", "best-of-n"] },
  { domain: "retail", level: 1, ways: ["sft-240", "sft-240-grpo", "best-of-n-rounds", "sft-60", "sft-960"] },
  { domain: "retail", level: 1, ways: ["credit-turn", "credit-state", "curriculum"] },
  ...([2, 3] as const).flatMap((level) =>
    (["retail", "booking"] as const).map(
      (domain): Part => ({
        ...{ domain, level, ways: ["untrained", "grpo"] },
        seeds: pageSeeds.slice(0, 1),
      }),
    ),
  ),
];
/** Of another model: whether it learns at all. */
const otherModel: readonly Part[] = (["retail", "booking"] as const).map((domain) => ({
  ...{ domain, level: 1, ways: ["untrained", "grpo"] },
}));

export interface Wanted {
  model: string;
  seeds: readonly number[];
  quick: boolean;
}

export function jobsOf({ model, seeds, quick: small }: Wanted): ToolsJob[] {
  const jobs = (model === starter ? parts : otherModel).flatMap(({ domain, level, ways: names, seeds: own = seeds }) =>
    names.flatMap((way) =>
      (way === "untrained" ? [0] : own).map(
        (seed): ToolsJob => ({ ...{ model, domain, level, way, seed }, ...(small && { quick: true as const }) }),
      ),
    ),
  );
  const again = jobs.filter(({ domain, level, way }) => measuredElsewhere.includes(`${domain} ${level} ${way}`));
  return [...jobs, ...(model === starter ? again.map((job) => ({ ...job, dialogues: true as const })) : [])];
}

/** Everything beside a job that decides its result. */
export function settingsOf(job: ToolsJob): unknown {
  const { domain, level, way: name } = job;
  const sizes = sizesOf(job);
  const way: Way = ways[name];
  const { what: _, ...how } = way;
  const { systemPrompt, maxTokens } = domains[domain];
  const tasks = [false, true].map((heldOut) => {
    const environment = environmentOf(domain, level, {
      heldOut,
      tasks: heldOut ? sizes.heldOutTasks : sizes.trainingTasks,
    });
    return settingsHash([environment.scenarios, environment.maxTurns]);
  });
  return {
    ...{ sizes, samples, how, systemPrompt, maxTokens, tasks, starterRate },
    ...(measuredConstrained.includes(name) && { constrained: true }),
    ...(way.train && { grpo: defaultsStamp("grpo") }),
    ...((way.oracle || way.harvest) && { sft: defaultsStamp(undefined) }),
  };
}
