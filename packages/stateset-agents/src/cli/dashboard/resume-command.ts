/** How a run that the command line started goes on: by the same command line, in a process of its own. */
import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { ResumeCommand } from "../../dashboard/http/control.ts";
import { findPackageRoot } from "../../package-root.ts";
import { pathIn } from "../../run/layout.ts";
import type { CliIo } from "../io.ts";
import { commandOf } from "../run/invocation.ts";
import { commandLine } from "../run/place.ts";

/** Undefined for a run of the library's: what it is made of stands in somebody's program. */
export function resumeCommand(dir: string, io: CliIo): ResumeCommand | undefined {
  const command = existsSync(pathIn(dir, "cli")) ? commandOf(dir, undefined) : undefined;
  if (command === undefined) return undefined;
  const args = [command, "--resume", dir];
  // Where it was started, as far as that can be told: a configuration is named from there.
  const cwd = basename(dirname(dir)) === "runs" ? dirname(dirname(dir)) : io.cwd;
  return { file: process.execPath, args: [...program(), ...args], cwd, shown: commandLine(args) };
}

/** From source it needs what this process was started with. */
function program(): string[] {
  const root = findPackageRoot();
  const source = import.meta.url.endsWith(".ts");
  return source ? [...process.execArgv, join(root, "src/cli/main.ts")] : [join(root, "bin/stateset-agents.mjs")];
}
