import { splitAlgorithmConfig } from "../../algorithm/algorithms.ts";
import { StatesetError } from "../../error.ts";
import { didYouMean } from "../../suggest.ts";
import { trainingConfigSchema } from "../../training/config.ts";
import type { ProjectConfig } from "./define-config.ts";
import { pythonKeys, pythonOnlyKeys } from "./python-keys.ts";

export const projectKeys = [
  "agent",
  "environment",
  "heldOut",
  "reward",
  "profile",
  "name",
  "training",
  "trackers",
  "alerts",
  "autoAdjust",
] as const;

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
  const notes: string[] = [];
  const place = (path: string, inner: unknown) => setAt(config, path.split("."), inner, file);
  const one = (key: string, inner: unknown, section: "" | "training"): void => {
    const camel = camelCase(key);
    if (Object.hasOwn(pythonOnlyKeys, key)) notes.push(`${key} has no effect: ${pythonOnlyKeys[key]}.`);
    else if (section === "" && camel === "training" && isPlain(inner)) {
      for (const [name, part] of Object.entries(inner)) one(name, part, "training");
    } else if (section === "" && (projectKeys as readonly string[]).includes(camel))
      place(camel, camelKeys(camel, inner));
    else if (isTrainingKey(camel)) place(`training.${camel}`, camelKeys(camel, inner));
    else if (Object.hasOwn(pythonKeys, key)) {
      const translated = key === "report_to" ? [inner].flat().filter((name) => name !== "none") : inner;
      for (const path of [pythonKeys[key]!].flat()) place(path, translated);
    } else {
      const valid = [...(section === "" ? projectKeys : []), ...Object.keys(trainingConfigSchema.shape)];
      throw new StatesetError("INVALID_OPTION", `Unknown key "${key}" in ${file}.`, { hint: didYouMean(camel, valid) });
    }
  };
  for (const [key, inner] of Object.entries(value)) one(key, inner, "");
  if (config.environment === undefined) {
    throw new StatesetError("INVALID_DATA", `${file} names no environment.`, {
      hint: "Add `environment: { preset: customer_service }` or `environment: { scenarios: scenarios.jsonl }`.",
    });
  }
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

/** Data of the user's own (scenarios, metadata) keeps its keys; options become camelCase. Names of rewards are looked up later. */
function camelKeys(key: string, value: unknown): unknown {
  if (!isPlain(value) || key === "reward" || key === "metadata" || key === "context") return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [camelCase(name), camelKeys(camelCase(name), inner)]),
  );
}

function camelCase(key: string): string {
  return key.replace(/[_-]([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

function isPlain(value: unknown): value is Plain {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
