/** The command line as a process of its own, for signals and kills. */
import { type ChildProcess, spawn } from "node:child_process";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

/** The loader that runs TypeScript as it is. */
export const tsx = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;
const tsconfig = fileURLToPath(new URL("../../../tsconfig.json", import.meta.url));

export interface SpawnedCli {
  child: ChildProcess;
  /** Resolves when what was printed matches. */
  saw(pattern: RegExp): Promise<void>;
  /** The exit status; null when a signal ended it. */
  exit: Promise<number | null>;
  output(): string;
}

export function spawnCli(
  args: readonly string[],
  cwd: string,
  program = "main",
  env: Record<string, string> = {},
): SpawnedCli {
  const main = fileURLToPath(new URL(`../src/cli/${program}.ts`, import.meta.url));
  const child = spawn(process.execPath, ["--import", tsx, main, ...args], {
    cwd,
    env: { ...process.env, ...env, TSX_TSCONFIG_PATH: tsconfig },
  });
  let text = "";
  const exit = new Promise<number | null>((resolve) => child.on("exit", resolve));
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      text += chunk;
    });
  }
  const saw = (pattern: RegExp) =>
    new Promise<void>((resolve, reject) => {
      const look = () => pattern.test(text) && resolve();
      child.stdout.on("data", look);
      child.stderr.on("data", look);
      look();
      void exit.then(() => (pattern.test(text) ? resolve() : reject(new Error(`never printed ${pattern}: ${text}`))));
    });
  return { child, saw, exit, output: () => text };
}
