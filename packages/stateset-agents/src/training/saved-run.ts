import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Algorithm } from "../algorithm/algorithm.ts";
import { messageOf, StatesetError } from "../error.ts";
import type { ModelInfo } from "../policy/policy.ts";
import { runDirOf } from "../run/checkpoint/store.ts";
import { mergeOptions, type TrainingConfig, type TrainingOptions } from "./config.ts";
import type { TrainParts } from "./train-options.ts";

/** What config.json holds: complete and resolved. */
export interface SavedConfig {
  version: 1;
  id: string;
  model: { name: string; parameters: number; trainableParameters: number };
  algorithm: Record<string, unknown>;
  training: TrainingConfig;
}

export function savedConfig(id: string, model: ModelInfo, algorithm: Algorithm, training: TrainingConfig): SavedConfig {
  const { name, parameters, trainableParameters } = model;
  return {
    version: 1,
    id,
    model: { name, parameters, trainableParameters },
    algorithm: { ...algorithm.options, algorithm: algorithm.name },
    training,
  };
}

export function readSavedConfig(resumeFrom: string): SavedConfig {
  const path = join(runDirOf(resumeFrom), "config.json");
  if (!existsSync(path)) {
    throw new StatesetError("CHECKPOINT_NOT_FOUND", `There is no run at ${runDirOf(resumeFrom)}.`, {
      hint: "Give a run's folder (it holds config.json) or one of its checkpoints.",
    });
  }
  try {
    return JSON.parse(readFileSync(path, "utf8")) as SavedConfig;
  } catch (error) {
    throw new StatesetError("CHECKPOINT_INVALID", `${path} cannot be read: ${messageOf(error)}.`, { cause: error });
  }
}

/** The options of the resumed run under those that are given now. */
export function withSaved(given: TrainingOptions, saved: SavedConfig): TrainingOptions {
  const { profile: _, ...options } = saved.training;
  return mergeOptions(given, options);
}

/** What a resumed run does differently from here on, in words; undefined when it goes on as it was. Another algorithm is refused. */
export function changesOf(saved: SavedConfig, algorithm: Algorithm, config: TrainingConfig): string | undefined {
  if (saved.algorithm.algorithm !== algorithm.name) {
    throw new StatesetError(
      "CHECKPOINT_MISMATCH",
      `The run "${saved.id}" was trained with ${String(saved.algorithm.algorithm)}, not with ${algorithm.name}.`,
      { hint: "Leave `algorithm` out to go on with it, or start a new run from its final/ folder." },
    );
  }
  const before: Record<string, unknown> = { ...saved.training, ...saved.algorithm };
  const now: Record<string, unknown> = { ...config, ...algorithm.options };
  const text = (value: unknown) => JSON.stringify(value) ?? "nothing";
  const changed = Object.keys({ ...before, ...now }).filter((key) => text(before[key]) !== text(now[key]));
  if (changed.length === 0) return undefined;
  const list = changed.map((key) => `${key} ${text(before[key])} → ${text(now[key])}`).join(", ");
  return `The run goes on with other options than it had: ${list}.`;
}

/** Where the run is kept; undefined when nowhere. A folder that holds a run is only ever resumed, never overwritten. */
export function runDir({ dir, resumeFrom }: TrainParts, id: string): string | undefined {
  if (resumeFrom !== undefined) {
    const own = runDirOf(resumeFrom);
    if (dir !== undefined && (dir === false || resolve(dir) !== own)) {
      throw new StatesetError("INVALID_OPTION", `A run is resumed in its own folder, ${own}, not in ${dir}.`, {
        hint: "Leave `dir` out.",
      });
    }
    return own;
  }
  if (dir === false) return undefined;
  const own = resolve(dir ?? join("runs", id));
  if (existsSync(join(own, "config.json"))) {
    throw new StatesetError("INVALID_OPTION", `${own} already holds a run.`, {
      hint: "Choose another `dir` or `name`, or go on with it by `resumeFrom`.",
    });
  }
  return own;
}

export function newRunId(algorithm: string): string {
  const time = new Date().toISOString().slice(0, 19).replace(/[-:]/g, "").replace("T", "-");
  return `${algorithm}-${time}`;
}
