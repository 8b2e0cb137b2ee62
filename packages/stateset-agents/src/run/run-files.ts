/**
 * The folder of a run. metrics.jsonl depends on (config, data, seed) alone and is cut back to the checkpoint on resume,
 * so that an interrupted run ends in the same bytes; what depends on the clock is in timing.jsonl.
 */
import {
  appendFileSync,
  closeSync,
  existsSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  statSync,
} from "node:fs";
import { join } from "node:path";
import type { TrajectoryGroup, Turn } from "../conversation/trajectory.ts";
import { settleFolder, writeFailed, writeFileAtomic, writeJsonAtomic } from "../durable.ts";
import type { StepMetrics, TimingRecord } from "./events.ts";

export class RunFiles {
  readonly dir: string;
  readonly metricsPath: string;
  readonly #timingPath: string;

  constructor(dir: string) {
    this.dir = dir;
    this.metricsPath = join(dir, "metrics.jsonl");
    this.#timingPath = join(dir, "timing.jsonl");
    try {
      mkdirSync(dir, { recursive: true });
    } catch (error) {
      throw writeFailed(dir, error);
    }
  }

  writeConfig(config: unknown): void {
    writeJsonAtomic(join(this.dir, "config.json"), config);
  }

  appendMetrics(metrics: StepMetrics): void {
    this.#append(this.metricsPath, metrics);
  }

  appendTiming(timing: TimingRecord): void {
    this.#append(this.#timingPath, timing);
  }

  /** Conversations as JSONL, one a line, in the OpenAI chat format with their reward. */
  writeTrajectories(step: number, groups: readonly TrajectoryGroup[]): void {
    const lines = groups.flatMap(({ id: group, trajectories }) =>
      trajectories.map(({ id, scenarioId, turns, reward, ended }) =>
        JSON.stringify({ id, group, scenarioId, step, messages: turns.map(withoutSampled), reward, ended }),
      ),
    );
    const name = `step-${String(step).padStart(6, "0")}.jsonl`;
    writeFileAtomic(join(this.dir, "trajectories", name), lines.map((line) => `${line}\n`).join(""));
  }

  /** Bytes of metrics.jsonl that are safely on the disk. */
  syncMetrics(): number {
    if (!existsSync(this.metricsPath)) return 0;
    const file = openSync(this.metricsPath, "r+");
    try {
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    return statSync(this.metricsPath).size;
  }

  /** After a kill: everything under its final name again. Only for the one process that writes here. */
  settle(): void {
    for (const folder of [".", "checkpoints", "trajectories"]) settleFolder(join(this.dir, folder));
  }

  /** Goes back to the moment of a checkpoint (0 bytes, step 0: to the beginning). */
  rewind(metricsBytes: number, step: number): void {
    truncate(this.metricsPath, metricsBytes);
    if (!existsSync(this.#timingPath)) return;
    let bytes = 0;
    for (const line of readFileSync(this.#timingPath, "utf8").split("\n")) {
      if (!line.endsWith("}") || (JSON.parse(line) as TimingRecord).step > step) break;
      bytes += Buffer.byteLength(line) + 1;
    }
    truncate(this.#timingPath, bytes);
  }

  /** The steps in metrics.jsonl. */
  readMetrics(): StepMetrics[] {
    if (!existsSync(this.metricsPath)) return [];
    const lines = readFileSync(this.metricsPath, "utf8").split("\n").filter(Boolean);
    return lines.map((line) => JSON.parse(line) as StepMetrics);
  }

  #append(path: string, record: unknown): void {
    try {
      appendFileSync(path, `${JSON.stringify(record)}\n`);
    } catch (error) {
      throw writeFailed(path, error);
    }
  }
}

/** Kept with the tokens, where those are written. */
function withoutSampled({ sampled: _, ...turn }: Turn): Turn {
  return turn;
}

function truncate(path: string, bytes: number): void {
  if (!existsSync(path)) return;
  const file = openSync(path, "r+");
  try {
    ftruncateSync(file, Math.min(bytes, statSync(path).size));
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
