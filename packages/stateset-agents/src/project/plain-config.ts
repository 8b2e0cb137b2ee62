import { splitAlgorithmConfig } from "../algorithm/algorithms.ts";
import { StatesetError } from "../error.ts";
import { didYouMean } from "../suggest.ts";
import { trainingConfigSchema } from "../training/config.ts";
import { fromPythonConfig, pythonConfigKeys } from "../training/python-config.ts";
import type { ProjectConfig } from "./define-config.ts";

export const projectKeys = [
  "agent",
  "environment",
  "heldOut",
  "reward",
  "profile",
  "name",
  "savePath",
  "training",
  "sft",
  "dpo",
  "rewardModel",
  "bestOfN",
  "serve",
  "trackers",
  "alerts",
  "autoAdjust",
] as const;

export function isProjectKey(key: string): boolean {
  return (projectKeys as readonly string[]).includes(key);
}

type Plain = Record<string, unknown>;

export interface PlainConfig {
  config: ProjectConfig;
  /** What was understood but has no effect, in words. */
  notes: string[];
}

/**
 * A configuration from YAML or JSON. Keys may be in snake_case, training options may stand at the top, and the names of the Python
 * system's configurations are understood. Unknown keys are refused with the nearest valid one.
 */
export function fromPlainData(value: unknown, file: string): PlainConfig {
  if (!isPlain(value)) {
    throw new StatesetError("INVALID_DATA", `${file} holds no configuration.`, {
      hint: "Write an object with `environment` and `reward`.",
    });
  }
  const config: Plain = {};
  const python: Plain = {};
  const place = (path: string, inner: unknown) => setAt(config, path.split("."), inner, file);
  const one = (key: string, inner: unknown, section: "" | "training"): void => {
    const camel = camelCase(key);
    if (section === "" && camel === "training" && isPlain(inner)) {
      for (const [name, part] of Object.entries(inner)) one(name, part, "training");
    } else if (section === "" && isProjectKey(camel)) place(camel, camelKeys(camel, inner));
    else if (isTrainingKey(camel)) place(`training.${camel}`, camelKeys(camel, inner));
    else if (key === "report_to")
      place(
        "trackers",
        [inner].flat().filter((name) => name !== "none" && name !== null),
      );
    else if (key === "model") place("agent.model", inner);
    else if (key === "run_name") place("name", inner);
    else if (pythonConfigKeys.includes(key)) python[key] = inner;
    else {
      const valid = [...(section === "" ? projectKeys : []), ...Object.keys(trainingConfigSchema.shape)];
      throw new StatesetError("INVALID_OPTION", `Unknown key "${key}" in ${file}.`, { hint: didYouMean(camel, valid) });
    }
  };
  for (const [key, inner] of Object.entries(value)) one(key, inner, "");

  const mapped = fromPythonConfig(python);
  for (const [key, inner] of Object.entries(mapped.agent)) place(`agent.${key}`, inner);
  for (const [key, inner] of Object.entries({ ...mapped.training, ...mapped.algorithm }))
    place(`training.${key}`, inner);
  if (mapped.profile !== undefined) place("profile", mapped.profile);
  const notes = mapped.ignored.map(({ key, reason }) => `${key} has no effect: ${reason}`);
  if (mapped.savePath !== undefined) place("savePath", mapped.savePath);
  return { config: config as unknown as ProjectConfig, notes };
}

function isTrainingKey(key: string): boolean {
  return (
    Object.hasOwn(trainingConfigSchema.shape, key) ||
    Object.keys(splitAlgorithmConfig({ [key]: 0 }).algorithm).length > 0
  );
}

function setAt(target: Plain, path: readonly string[], value: unknown, file: string): void {
  const [key, ...rest] = path as [string, ...string[]];
  if (rest.length > 0) {
    const inner = target[key] ?? {};
    if (!isPlain(inner)) throw new StatesetError("INVALID_DATA", `"${key}" in ${file} is not an object.`);
    target[key] = inner;
    setAt(inner, rest, value, file);
  } else target[key] = isPlain(target[key]) && isPlain(value) ? { ...target[key], ...value } : value;
}

/** What the user has names of his own in. Names of rewards are looked up later. */
const ownKeyed = ["reward", "check", "metadata", "context", "templateVariables", "rewardWeights"];

/** Data of the user's own keeps its keys; options become camelCase. */
export function camelKeys(key: string, value: unknown): unknown {
  if (!isPlain(value) || ownKeyed.includes(key)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [camelCase(name), camelKeys(camelCase(name), inner)]),
  );
}

export function camelCase(key: string): string {
  return key.replace(/[_-]([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

function isPlain(value: unknown): value is Plain {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
