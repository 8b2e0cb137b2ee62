import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { StatesetError } from "../error.ts";
import type { StepMetrics } from "../run/events.ts";
import { didYouMean } from "../suggest.ts";
import { readSavedConfig, type SavedConfig } from "../training/saved-run.ts";

/** What the folder of a run says about it. */
export interface RunInfo {
  id: string;
  dir: string;
  config: SavedConfig;
  status: "finished" | "unfinished";
  /** Steps in metrics.jsonl. */
  steps: number;
  metrics: StepMetrics[];
  /** Folders of checkpoints, oldest first. */
  checkpoints: string[];
  best: string | undefined;
  /** When something in it last changed, in milliseconds. */
  changedMs: number;
  bytes: number;
}

/** All runs below a folder, the newest first. Folders without a config.json are none. */
export function listRuns(dir: string): RunInfo[] {
  if (!existsSync(dir)) return [];
  return readdirSync(dir)
    .map((name) => join(dir, name))
    .filter((path) => existsSync(join(path, "config.json")) && existsSync(join(path, "metrics.jsonl")))
    .map(readRun)
    .sort((a, b) => b.changedMs - a.changedMs || (a.id < b.id ? -1 : 1));
}

/** A run by its name below `dir`, or by its path; "last" is the newest. */
export function findRun(dir: string, name: string, cwd: string): RunInfo {
  const runs = listRuns(dir);
  if (name === "last" && runs[0]) return runs[0];
  for (const path of [join(dir, name), resolve(cwd, name)]) {
    if (existsSync(join(path, "config.json")) && existsSync(join(path, "metrics.jsonl"))) return readRun(path);
  }
  const names = runs.map((run) => basename(run.dir));
  throw new StatesetError("CHECKPOINT_NOT_FOUND", `There is no run "${name}" in ${dir}.`, {
    hint: names.length === 0 ? "Train one with `stateset-agents train`." : didYouMean(name, names),
  });
}

export function readRun(dir: string): RunInfo {
  const config = readSavedConfig(dir);
  const metrics = readFileSync(join(dir, "metrics.jsonl"), "utf8")
    .split("\n")
    .filter((line) => line.endsWith("}"))
    .map((line) => JSON.parse(line) as StepMetrics)
    .filter((record) => record.step > 0);
  const folder = join(dir, "checkpoints");
  const checkpoints = existsSync(folder)
    ? readdirSync(folder)
        .filter((name) => name.startsWith("step-"))
        .sort()
        .map((name) => join(folder, name))
    : [];
  const best = existsSync(join(folder, "best"))
    ? join(folder, readFileSync(join(folder, "best"), "utf8").trim())
    : undefined;
  return {
    id: config.id,
    dir,
    config,
    status: existsSync(join(dir, "final")) ? "finished" : "unfinished",
    steps: metrics.at(-1)?.step ?? 0,
    metrics,
    checkpoints,
    best,
    changedMs: statSync(join(dir, "metrics.jsonl")).mtimeMs,
    bytes: sizeOf(dir),
  };
}

export function sizeOf(path: string): number {
  const stat = statSync(path);
  if (!stat.isDirectory()) return stat.size;
  return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), 0);
}
