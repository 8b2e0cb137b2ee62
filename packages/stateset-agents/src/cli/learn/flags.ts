import type { ProjectConfig } from "../../project/define-config.ts";
import { learnerShapes, type SectionName } from "../../project/sections.ts";
import type { Invocation } from "../run/invocation.ts";
import { type Settings, withSettings } from "../settings.ts";

/** The flags of the commands that learn from data, parsed. Each has some of them. */
export interface LearnFlags extends Invocation {
  name?: string;
  resume?: string | true;
  acceptChanges?: boolean;
  discardLater?: boolean;
  dryRun?: boolean;
  epochs?: number;
  batchSize?: number;
  learningRate?: number;
  seed?: number;
  loss?: string;
  beta?: number;
  n?: number;
  keep?: number;
  set?: Record<string, unknown>;
  json?: boolean;
}

/** What a section of the configuration and the flags say, by the names of the library's options. */
export function learnSettings(
  section: ProjectConfig[SectionName] | Settings,
  name: SectionName,
  flags: LearnFlags,
): Settings {
  const known = Object.keys(learnerShapes[name]);
  const own = Object.entries({ ...section }).filter(([key]) => known.includes(key));
  const { epochs, batchSize, learningRate, seed, loss, beta, n, keep, minReward } = flags;
  return withSettings(Object.fromEntries(own), {
    ...{ epochs, batchSize, learningRate, seed, loss, beta, n, keep, minReward },
    ...flags.set,
  });
}
