/** One run: its row, and what else its folder says. */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { readPlainText } from "../../plain-file.ts";
import { pathIn, runFiles, stepOf } from "../../run/layout.ts";
import { metricFamilies, metrics as metricTable } from "../../run/metrics.ts";
import { sizeOf } from "../../run/read-run.ts";
import { trajectorySteps } from "../../run/trajectories.ts";
import type { MetricInfo, RunData } from "../api/index.ts";
import { numberAt, stringAt } from "./json-file.ts";
import type { Library } from "./library.ts";
import type { RunPlace } from "./places.ts";
import { rowOf } from "./row.ts";

export async function runOf(library: Library, place: RunPlace): Promise<Omit<RunData, "stop" | "resume" | "readOnly">> {
  const row = await rowOf(library, place);
  const { dir } = place;
  const summary = await library.indexes.of(dir).summary();
  const fork = library.config(dir)?.forkedFrom;
  const [from, step] = [stringAt(fork, "run"), numberAt(fork, "step")];
  return {
    ...row,
    dir,
    metrics: summary.metrics.map(infoOf),
    recordedSteps: trajectorySteps(dir),
    files: filesOf(dir),
    checkpoints: checkpointsOf(dir),
    time: summary.time,
    forkedFrom: from !== null && step !== null ? { run: from, step } : null,
  };
}

function infoOf({ name, count, last }: { name: string; count: number; last: number | null }): MetricInfo {
  const known = Object.hasOwn(metricTable, name) ? metricTable[name as keyof typeof metricTable] : undefined;
  const [, family] = Object.entries(metricFamilies).find(([prefix]) => name.startsWith(prefix)) ?? [];
  const { meaning = "", unit = "number" } = known ?? family ?? {};
  return { name, meaning, unit, count, last };
}

function filesOf(dir: string): RunData["files"] {
  const known = new Set<string>(Object.values(runFiles));
  // What is not the run's own is not looked into: somebody may keep anything beside it.
  return namesIn(dir)
    .filter((name) => known.has(name))
    .map((name) => ({ name, bytes: bytesOf(join(dir, name), name) }));
}

/** By the folder's own time: files of trajectories are put there whole and do not change. */
const counted = new Map<string, { mtimeMs: number; bytes: number }>();

function bytesOf(path: string, name: string): number {
  if (name !== runFiles.trajectories) return sizeOf(path);
  const { mtimeMs } = statSync(path);
  const known = counted.get(path);
  if (known?.mtimeMs === mtimeMs) return known.bytes;
  const bytes = sizeOf(path);
  counted.set(path, { mtimeMs, bytes });
  return bytes;
}

function checkpointsOf(dir: string): RunData["checkpoints"] {
  const folder = pathIn(dir, "checkpoints");
  const best = textOf(join(folder, "best"));
  return namesIn(folder)
    .flatMap((name) => {
      const step = stepOf(name);
      return step === undefined ? [] : [{ step, best: name === best, bytes: sizeOf(join(folder, name)) }];
    })
    .sort((a, b) => a.step - b.step);
}

function textOf(path: string): string | undefined {
  try {
    return readPlainText(path).trim();
  } catch {
    return undefined;
  }
}

function namesIn(dir: string): string[] {
  try {
    return readdirSync(dir).sort();
  } catch {
    return [];
  }
}
