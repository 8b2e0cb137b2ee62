/** What the folders of runs say, for whoever shows them. A run that is damaged says so, and is in nobody's way. */
import { existsSync, lstatSync, readdirSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { temporaryOwner } from "../durable.ts";
import { messageOf, StatesetError } from "../error.ts";
import { processExists } from "../file-lock.ts";
import { didYouMean } from "../suggest.ts";
import { checkpointsOf } from "./checkpoint/store.ts";
import { type RunConfig, readConfig } from "./config.ts";
import type { StepMetrics } from "./event.ts";
import { pathIn } from "./layout.ts";
import { holderOf } from "./lock.ts";
import { readJsonLines } from "./log.ts";
import { type RunState, readStatus } from "./status.ts";

export interface RunInfo {
  id: string;
  dir: string;
  /** Undefined where it cannot be read; `problem` says why. */
  config: RunConfig | undefined;
  problem: string | undefined;
  state: RunState;
  /** In words, unless it runs or simply finished. */
  reason: string | undefined;
  /** Milliseconds since 1970. */
  startedAt: number;
  /** Steps done, and to be done. */
  step: number;
  steps: number | undefined;
  /** One record a step. */
  metrics: StepMetrics[];
  /** Folders of checkpoints, oldest first. */
  checkpoints: string[];
  best: string | undefined;
}

/** All runs below a folder, the one that was started last first. */
export function listRuns(dir: string): RunInfo[] {
  if (!existsSync(dir)) return [];
  return readdirSync(dir)
    .filter((name) => temporaryOwner(name) === undefined)
    .map((name) => join(dir, name))
    .filter(isRun)
    .map(readRun)
    .sort((a, b) => b.startedAt - a.startedAt || (a.id < b.id ? -1 : 1));
}

/** A run by its name below `dir`, or by its path; "last" is the newest. */
export function findRun(dir: string, name: string, cwd: string): RunInfo {
  for (const path of [join(dir, name), resolve(cwd, name)]) if (isRun(path)) return readRun(path);
  const runs = listRuns(dir);
  if (name === "last" && runs[0]) return runs[0];
  const names = runs.map((run) => basename(run.dir));
  throw new StatesetError("CHECKPOINT_NOT_FOUND", `There is no run "${name}" in ${dir}.`, {
    hint: names.length === 0 ? "Train one with `npx stateset-agents train`." : didYouMean(name, names),
  });
}

/** What a process that was killed left beside the runs, half of a run that it split off. */
export function abandonedIn(dir: string): string[] {
  if (!existsSync(dir)) return [];
  return readdirSync(dir).flatMap((name) => {
    const owner = temporaryOwner(name);
    return owner === undefined || processExists(owner) ? [] : [join(dir, name)];
  });
}

export function readRun(dir: string): RunInfo {
  const problems: string[] = [];
  const read = <T>(part: () => T, otherwise: T): T => {
    try {
      return part();
    } catch (error) {
      problems.push(messageOf(error));
      return otherwise;
    }
  };
  // Its configuration is written when learning begins.
  const samples = existsSync(pathIn(dir, "harvest")) && !existsSync(pathIn(dir, "config"));
  const config = samples ? undefined : read<RunConfig | undefined>(() => readConfig(dir), undefined);
  const lines = read(() => readJsonLines<StepMetrics>(pathIn(dir, "metrics")), []);
  const metrics = lines.filter(({ step }) => step > 0);
  const status = readStatus(dir);
  const { all, best } = read(() => checkpointsOf(dir), { all: [], best: undefined });
  const steps = status?.steps ?? config?.settings.steps;
  return {
    id: config?.id ?? basename(dir),
    dir,
    config,
    problem: problems[0],
    state: status?.state ?? stateOf(dir, samples),
    reason: status?.reason,
    startedAt: status?.startedAt ?? statSync(dir).birthtimeMs,
    step: metrics.at(-1)?.step ?? 0,
    steps: typeof steps === "number" ? steps : undefined,
    metrics,
    checkpoints: all,
    best,
  };
}

/** Of a run that says nothing of itself. */
function stateOf(dir: string, samples: boolean): RunInfo["state"] {
  if (existsSync(pathIn(dir, "final"))) return "finished";
  if (holderOf(dir)) return "running";
  return samples ? "interrupted" : "lost";
}

/** Bytes below a path. What goes away while they are counted counts nothing. */
export function sizeOf(path: string): number {
  try {
    const stat = lstatSync(path);
    if (!stat.isDirectory()) return stat.size;
    return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), 0);
  } catch {
    return 0;
  }
}

/** Also one that was killed before its first step, whose configuration is gone, or that was stopped while it sampled what to learn from. */
export function isRun(dir: string): boolean {
  return (["config", "status", "harvest"] as const).some((file) => existsSync(pathIn(dir, file)));
}
