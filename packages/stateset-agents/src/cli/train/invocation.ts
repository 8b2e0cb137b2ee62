import { existsSync, readFileSync } from "node:fs";
import { writeJsonAtomic } from "../../durable.ts";
import { messageOf, StatesetError } from "../../error.ts";
import { pathIn } from "../../run/layout.ts";
import type { TrainFlags } from "./flags.ts";

/** How a run was started, kept beside it as cli.json, so that `--resume` alone goes on the same way. */
export type Invocation = Pick<TrainFlags, "config" | "stub" | "autoAdjust" | "tracker" | "model" | "threads" | "save">;

const names = [
  "config",
  "stub",
  "autoAdjust",
  "tracker",
  "model",
  "threads",
  "save",
] as const satisfies (keyof Invocation)[];

export function writeInvocation(dir: string, flags: TrainFlags): void {
  const kept = Object.fromEntries(names.filter((name) => flags[name] !== undefined).map((name) => [name, flags[name]]));
  writeJsonAtomic(pathIn(dir, "cli"), kept);
}

/** Runs made by the library have none. */
export function readInvocation(dir: string): Invocation {
  const path = pathIn(dir, "cli");
  if (!existsSync(path)) return {};
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Invocation;
  } catch (error) {
    throw new StatesetError("CHECKPOINT_INVALID", `${path} cannot be read: ${messageOf(error)}.`, {
      hint: "It only holds the flags the run was started with: remove it, and give them again.",
      cause: error,
    });
  }
}
