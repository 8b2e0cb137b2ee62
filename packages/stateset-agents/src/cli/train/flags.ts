import { splitAlgorithmConfig } from "../../algorithm/algorithms.ts";
import { StatesetError } from "../../error.ts";
import type { TrackerName } from "../../project/names.ts";
import type { ProfileName } from "../../training/profiles.ts";

/** The flags of `train`, parsed. */
export interface TrainFlags {
  config?: string;
  name?: string;
  resume?: string | true;
  acceptChanges?: boolean;
  discardLater?: boolean;
  save?: string;
  dryRun?: boolean;
  stub?: boolean;
  profile?: ProfileName;
  autoAdjust?: boolean;
  tracker?: TrackerName[];
  model?: string;
  threads?: number;
  algorithm?: string;
  seed?: number;
  steps?: number;
  episodes?: number;
  learningRate?: number;
  groupSize?: number;
  groupsPerStep?: number;
  maxTokens?: number;
  temperature?: number;
  kl?: number;
  set?: Record<string, unknown>;
  json?: boolean;
}

type Settings = Record<string, unknown>;

/** Training settings with what the command line says put over them. */
export function applyFlags(settings: Readonly<Settings>, flags: TrainFlags): Settings {
  const result = structuredClonePlain(settings);
  const put = (path: string, value: unknown) => {
    if (value !== undefined) setPath(result, path.split("."), value, path);
  };
  if (flags.episodes !== undefined) delete result.steps;
  if (flags.steps !== undefined) delete result.episodes;
  if (flags.algorithm !== undefined && flags.algorithm !== (settings.algorithm ?? "grpo")) {
    // Options of the configured algorithm mean something else to another one, or nothing.
    for (const key of Object.keys(splitAlgorithmConfig(result).algorithm)) delete result[key];
    put("algorithm", flags.algorithm);
  }
  put("seed", flags.seed);
  put("steps", flags.steps);
  put("episodes", flags.episodes);
  put("learningRate", flags.learningRate);
  put("groupSize", flags.groupSize);
  put("groupsPerStep", flags.groupsPerStep);
  put("sampling.maxTokens", flags.maxTokens);
  put("sampling.temperature", flags.temperature);
  put("kl.coefficient", flags.kl);
  for (const [path, value] of Object.entries(flags.set ?? {})) put(path, value);
  return result;
}

function setPath(target: Settings, [key, ...rest]: string[], value: unknown, whole: string): void {
  if (rest.length === 0) {
    target[key!] = value;
    return;
  }
  const inner = target[key!] ?? {};
  if (typeof inner !== "object")
    throw new StatesetError("INVALID_OPTION", `--set ${whole}: "${key}" is a single value, not a group of settings.`);
  target[key!] = inner;
  setPath(inner as Settings, rest, value, whole);
}

/** Settings may hold an Algorithm object, which structuredClone refuses; only plain objects are copied. */
function structuredClonePlain(value: Readonly<Settings>): Settings {
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, isPlain(inner) ? structuredClonePlain(inner) : inner]),
  );
}

function isPlain(value: unknown): value is Settings {
  return (
    typeof value === "object" &&
    value !== null &&
    Object.getPrototypeOf(value) === Object.prototype &&
    !("loss" in value)
  );
}
