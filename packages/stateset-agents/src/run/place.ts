/** Where a run is kept, under which name, and what it goes on from. */
import { existsSync, mkdirSync, readdirSync, rmdirSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { z } from "zod";
import { writeFailed } from "../durable.ts";
import { StatesetError } from "../error.ts";
import { laterCheckpoints, runDirOf } from "./checkpoint/store.ts";
import { readConfig } from "./config.ts";
import { forkRun } from "./fork.ts";
import { logFiles, pathIn } from "./layout.ts";
import { checkRunName, newRunName } from "./run-id.ts";

/** For the options of every learner. */
export const placeShape = {
  name: z
    .string()
    .optional()
    .describe("The run's name; its folder is `runs/<name>`. Default: what learns, and the time."),
  dir: z
    .union([z.string(), z.literal(false)])
    .optional()
    .describe("The run's folder, instead of `runs/<name>`. False: nothing is kept, and the run cannot be resumed."),
  resumeFrom: z
    .string()
    .optional()
    .describe(
      "A run's folder, or one of its checkpoints: go on from there. Options that are left out are those of that run. With another `name` or `dir` a new run is split off, and the old one is left alone.",
    ),
  discardLater: z
    .boolean()
    .optional()
    .describe("Allows a run to go on from an earlier checkpoint in its own folder, where what came later is removed."),
} as const;

export type RunPlace = z.output<z.ZodObject<typeof placeShape>>;

export interface FoundPlace {
  id: string;
  /** Undefined when nothing is kept. */
  dir: string | undefined;
  /** What to go on from: the run's own folder or a checkpoint in it. */
  resumeFrom: string | undefined;
}

/** Makes the folder of a new run, or of one that is split off. A folder that holds a run is only ever resumed, never overwritten. */
export async function findPlace({ name, dir, resumeFrom, discardLater }: RunPlace, what: string): Promise<FoundPlace> {
  if (name !== undefined) checkRunName(name);
  if (resumeFrom !== undefined) {
    const own = runDirOf(resumeFrom);
    const saved = readConfig(own);
    if (dir === false) {
      throw new StatesetError("INVALID_OPTION", `The run in ${own} goes on in a folder, and \`dir\` is false.`, {
        hint: "Leave `dir` out, or give another folder to split it off.",
      });
    }
    const another = name !== undefined && name !== saved.id;
    const target = dir !== undefined ? resolve(dir) : another ? join(own, "..", name) : own;
    if (target === own && !another) {
      if (!discardLater) refuseLater(resumeFrom);
      return { id: saved.id, dir: own, resumeFrom };
    }
    if (target === own) throw taken(own);
    // A fork puts a whole folder there; whatever it is that somebody keeps at that place, it stays.
    if (existsSync(target) && !(statSync(target).isDirectory() && readdirSync(target).length === 0))
      throw taken(target);
    const id = name ?? checkRunName(basename(target));
    await forkRun(resumeFrom, target, id);
    return { id, dir: target, resumeFrom: target };
  }
  if (dir === false) return { id: name ?? newRunName(what), dir: undefined, resumeFrom: undefined };
  if (dir === undefined && name === undefined) return { ...claimFolder(resolve("runs"), what), resumeFrom: undefined };
  const own = resolve(dir ?? join("runs", name!));
  requireFree(own);
  makeFolder(own);
  return { id: name ?? newRunName(what), dir: own, resumeFrom: undefined };
}

/** Two runs that begin in the same second get two folders: making one is what only one of them can do. */
export function claimFolder(runs: string, what: string): { id: string; dir: string } {
  makeFolder(runs);
  const base = newRunName(what);
  for (let n = 1; ; n++) {
    const id = n === 1 ? base : `${base}-${n}`;
    const dir = join(runs, id);
    try {
      mkdirSync(dir);
      return { id, dir };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw writeFailed(dir, error);
    }
  }
}

/** Takes back the folder of a run that did not come to be. */
export function releaseEmpty(dir: string): void {
  try {
    rmdirSync(dir);
  } catch {
    // There is a run in it.
  }
}

function makeFolder(dir: string): void {
  try {
    mkdirSync(dir, { recursive: true });
  } catch (error) {
    throw writeFailed(dir, error);
  }
}

function requireFree(dir: string): void {
  if (holdsRun(dir)) throw taken(dir);
}

/** Whether a new run would add to, or void, what lies in a folder. */
export function holdsRun(dir: string): boolean {
  return heldFiles.some((file) => existsSync(pathIn(dir, file)));
}

/** Also those of another run whose configuration is gone. */
const heldFiles = ["config", ...logFiles, "trajectories", "checkpoints", "final"] as const;

function taken(dir: string): StatesetError {
  const what = existsSync(pathIn(dir, "config")) ? "a run" : "something else";
  return new StatesetError("INVALID_OPTION", `${dir} already holds ${what}.`, {
    hint: `Choose another \`dir\` or \`name\`${what === "a run" ? ", or go on with it by `resumeFrom`" : ""}.`,
  });
}

function refuseLater(resumeFrom: string): void {
  const later = laterCheckpoints(resumeFrom);
  if (later.length === 0) return;
  throw new StatesetError(
    "INVALID_OPTION",
    `Going on from ${resumeFrom} would remove what came after it: ${later.join(", ")}.`,
    { hint: "Give another `name` to split off a new run, or set discardLater (on the command line --discard-later)." },
  );
}
