/** Folders of runs, for tests that compare and damage them. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";

const clock = ["status.json", "timing.jsonl", "live.jsonl"];

/** A hash of every file by its path, but for those that depend on the clock and those in `except`. */
export function hashesOf(dir: string, except: readonly string[] = []): Record<string, string> {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(dir, join(entry.parentPath, entry.name)))
    .filter((file) => !clock.includes(file) && !except.includes(file))
    .sort();
  const hash = (file: string) =>
    createHash("sha256")
      .update(readFileSync(join(dir, file)))
      .digest("hex");
  return Object.fromEntries(files.map((file) => [file, hash(file)]));
}

/** Changes one bit in the middle of a file. */
export function flipBit(path: string): void {
  const content = readFileSync(path);
  content[Math.floor(content.length / 2)]! ^= 4;
  writeFileSync(path, content);
}
