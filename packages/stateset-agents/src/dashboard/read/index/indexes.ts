/** The indexes of all runs. Few are held in memory whole: those that were asked for last. */
import { existsSync } from "node:fs";
import { RunIndex } from "./run-index.ts";
import { indexFiles, readHead, removeIndex } from "./store.ts";

/** As many as are compared at once fit: fifty of 10,000 steps and 35 numbers are 75 MB. With less, each would be read anew for each question. */
const mostBytes = 96 << 20;

export class Indexes {
  readonly #cacheDir: string;
  /** The one that was used last is the last. */
  readonly #indexes = new Map<string, RunIndex>();

  constructor(cacheDir: string) {
    this.#cacheDir = cacheDir;
  }

  of(dir: string): RunIndex {
    const index = this.#indexes.get(dir) ?? new RunIndex(dir, this.#cacheDir);
    this.#indexes.delete(dir);
    this.#indexes.set(dir, index);
    this.#shrink(index);
    return index;
  }

  /** Of a run that is gone: what was kept of it on the disk goes too. */
  drop(dir: string): void {
    const index = this.#indexes.get(dir) ?? new RunIndex(dir, this.#cacheDir);
    this.#indexes.delete(dir);
    index.remove();
  }

  /** Removes what was kept of runs that went while nobody looked. A run that comes back is read anew. */
  sweep(): void {
    for (const path of indexFiles(this.#cacheDir)) {
      const dir = readHead<{ dir?: unknown }>(path)?.dir;
      if (typeof dir === "string" && !existsSync(dir)) removeIndex(path);
    }
  }

  close(): void {
    for (const index of this.#indexes.values()) index.release();
    this.#indexes.clear();
  }

  #shrink(used: RunIndex): void {
    let bytes = 0;
    for (const index of this.#indexes.values()) bytes += index.weight;
    for (const index of this.#indexes.values()) {
      if (bytes <= mostBytes) return;
      if (index === used) continue;
      bytes -= index.weight;
      index.release();
    }
  }
}
