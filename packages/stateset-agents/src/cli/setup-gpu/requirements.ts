/** What the worker needs of Python, as its own package says it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { workerFolder } from "../../policy/torch/find-python.ts";

export interface Requirements {
  /** The lowest version. */
  python: string;
  packages: { name: string; least: string }[];
}

export function workerRequirements(folder: string = workerFolder()): Requirements {
  const text = readFileSync(join(folder, "pyproject.toml"), "utf8");
  const list = /^dependencies = \[(.*)\]$/m.exec(text)?.[1] ?? "";
  return {
    python: /^requires-python = ">=([\d.]+)"$/m.exec(text)![1]!,
    packages: [...list.matchAll(/"([\w-]+)>=([\d.]+)"/g)].map(([, name, least]) => ({ name: name!, least: least! })),
  };
}

/** Whether a version, such as 2.13.0+cu130, is the one asked for or a later one. */
export function isAtLeast(version: string, least: string): boolean {
  const numbers = (text: string) =>
    text
      .split("+")[0]!
      .split(".")
      .map((part) => Number.parseInt(part, 10) || 0);
  const [have, want] = [numbers(version), numbers(least)];
  for (let i = 0; i < want.length; i++) {
    if ((have[i] ?? 0) !== want[i]) return (have[i] ?? 0) > want[i]!;
  }
  return true;
}
