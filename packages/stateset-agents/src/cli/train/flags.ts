import { splitAlgorithmConfig } from "../../algorithm/algorithms.ts";
import type { TrackerName } from "../../project/names.ts";
import type { ProfileName } from "../../training/profiles.ts";
import type { Invocation } from "../run/invocation.ts";
import { type Settings, withSettings } from "../settings.ts";

/** The flags of `train`, parsed. */
export interface TrainFlags extends Invocation {
  name?: string;
  resume?: string | true;
  acceptChanges?: boolean;
  discardLater?: boolean;
  dryRun?: boolean;
  profile?: ProfileName;
  tracker?: TrackerName[];
  algorithm?: string;
  seed?: number;
  steps?: number;
  episodes?: number;
  learningRate?: number;
  groupSize?: number;
  groupsPerStep?: number;
  maxTokens?: number;
  temperature?: number;
  constrain?: true;
  kl?: number;
  set?: Record<string, unknown>;
  json?: boolean;
}

/** Training settings with what the command line says put over them. */
export function applyFlags(given: Readonly<Settings>, flags: TrainFlags): Settings {
  const settings = { ...given };
  if (flags.episodes !== undefined) delete settings.steps;
  if (flags.steps !== undefined) delete settings.episodes;
  const another = flags.algorithm !== undefined && flags.algorithm !== (given.algorithm ?? "grpo");
  if (another) {
    // Options of the configured algorithm mean something else to another one, or nothing.
    for (const key of Object.keys(splitAlgorithmConfig(settings).algorithm)) delete settings[key];
  }
  return withSettings(settings, {
    algorithm: another ? flags.algorithm : undefined,
    seed: flags.seed,
    steps: flags.steps,
    episodes: flags.episodes,
    learningRate: flags.learningRate,
    groupSize: flags.groupSize,
    groupsPerStep: flags.groupsPerStep,
    "sampling.maxTokens": flags.maxTokens,
    "sampling.temperature": flags.temperature,
    constrain: flags.constrain,
    "kl.coefficient": flags.kl,
    ...flags.set,
  });
}
