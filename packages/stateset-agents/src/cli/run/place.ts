/** Where runs of the command line are: below `runs/` of the working folder, or where a flag says. */
import { existsSync } from "node:fs";
import { isAbsolute, join, relative, resolve } from "node:path";
import { StatesetError } from "../../error.ts";
import { runDirOf } from "../../run/checkpoint/store.ts";
import { type RunConfig, readConfig } from "../../run/config.ts";
import { pathIn } from "../../run/layout.ts";
import { claimFolder, holdsRun } from "../../run/place.ts";
import { isRun, listRuns } from "../../run/read-run.ts";
import { checkRunName } from "../../run/run-id.ts";
import type { CliIo } from "../io.ts";
import { commandOf, type RunCommand } from "./invocation.ts";
import { pathOrRun } from "./path-or-run.ts";

/** The run, or the checkpoint of one, that `--resume` names. It must be one that the command made. */
export function resumePath(resume: string | true | undefined, command: RunCommand, io: CliIo): string | undefined {
  if (resume === undefined) return undefined;
  const runs = join(io.cwd, "runs");
  if (resume === true) {
    const newest = listRuns(runs).find(({ dir, config }) => commandOf(dir, config?.learner) === command);
    if (newest) return newest.dir;
    throw new StatesetError("CHECKPOINT_NOT_FOUND", `There is no run of ${command} to resume in ${runs}.`, {
      hint: "Name a run's folder: --resume <folder>.",
    });
  }
  const path = pathOrRun(resume, io);
  const dir = runDirOf(path);
  const other = existsSync(dir)
    ? commandOf(dir, existsSync(pathIn(dir, "config")) ? learnerOf(dir) : undefined)
    : undefined;
  if (other === undefined || other === command) return path;
  throw new StatesetError("CHECKPOINT_MISMATCH", `The run in ${dir} is one of ${other}, not of ${command}.`, {
    hint: `Go on with it by \`${commandLine([other, "--resume", shown(path, io)])}\`.`,
  });
}

function learnerOf(dir: string): RunConfig["learner"] | undefined {
  try {
    return readConfig(dir).learner;
  } catch {
    // What is wrong with it is said when it is opened.
    return undefined;
  }
}

/** A run that is resumed stays where it is, unless it is given another name. A new one is called after `what` and the time. */
export function placeOf(
  name: string | undefined,
  command: RunCommand,
  resumeFrom: string | undefined,
  what: string,
  io: CliIo,
): { name?: string; dir?: string } {
  if (resumeFrom !== undefined) {
    if (name === undefined) return {};
    const own = runDirOf(resumeFrom);
    const target = join(own, "..", checkRunName(name));
    if (target !== own && holdsRun(target)) throw taken(name, target, command, io);
    return { name };
  }
  if (name === undefined) {
    const { id, dir } = claimFolder(join(io.cwd, "runs"), what);
    return { name: id, dir };
  }
  const dir = resolve(io.cwd, "runs", checkRunName(name));
  if (holdsRun(dir)) throw taken(name, dir, command, io);
  return { name, dir };
}

/** In the words of the command line: the library's own speak of its options. */
function taken(name: string, dir: string, command: RunCommand, io: CliIo): StatesetError {
  const go = isRun(dir)
    ? `, or go on with it: ${commandLine([commandOf(dir, learnerOf(dir)) ?? command, "--resume", shown(dir, io)])}`
    : "";
  return new StatesetError(
    "INVALID_OPTION",
    `The name "${name}" is taken: ${shown(dir, io)} already holds ${isRun(dir) ? "a run" : "something else"}.`,
    {
      hint: `Give another --name${go}`,
    },
  );
}

/** A path as a person would type it: from the working folder where it is below it. */
export function shown(path: string, io: CliIo): string {
  const short = isAbsolute(path) ? relative(io.cwd, path) : path;
  return short.startsWith("..") || short === "" ? path : short;
}

/** A command to be pasted into a shell. */
export function commandLine(words: readonly string[]): string {
  const plain = /^[\w@%+=:,./-]+$/;
  const quoted = words.map((word) => (plain.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`));
  return ["npx stateset-agents", ...quoted].join(" ");
}
