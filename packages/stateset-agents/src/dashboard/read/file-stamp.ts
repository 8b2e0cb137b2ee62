import { statSync } from "node:fs";

/** By what a file is known to be the one that was read; undefined where there is none. */
export function fileStamp(path: string): string | undefined {
  try {
    const { ino, size, mtimeMs } = statSync(path);
    return `${ino} ${size} ${mtimeMs}`;
  } catch {
    return undefined;
  }
}
