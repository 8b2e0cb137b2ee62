import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { CliIo } from "../io.ts";

/** A path, or the name of a run below `runs/`. */
export function pathOrRun(text: string, io: CliIo): string {
  const [path, named] = [resolve(io.cwd, text), join(io.cwd, "runs", text)];
  return !existsSync(path) && existsSync(named) ? named : path;
}
