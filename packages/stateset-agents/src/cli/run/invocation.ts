import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { writeJsonAtomic } from "../../durable.ts";
import { messageOf, StatesetError } from "../../error.ts";
import { readPlainText } from "../../plain-file.ts";
import type { EngineFlags } from "../../project/on-engine.ts";
import type { LearnerKind } from "../../run/config.ts";
import { pathIn } from "../../run/layout.ts";
import type { DemoOptions } from "../demo/run-demo.ts";
import type { CliIo } from "../io.ts";
import { pathOrRun } from "./path-or-run.ts";

/** The commands that make runs. */
export type RunCommand = "train" | "demo" | "sft" | "dpo" | "reward-model" | "best-of-n";

/** How a run was started, kept beside it as cli.json, so that `--resume` alone goes on the same way. */
export interface Invocation extends EngineFlags {
  config?: string;
  stub?: boolean;
  autoAdjust?: boolean;
  tracker?: string[];
  wandbProject?: string;
  model?: string;
  checkpoint?: string;
  lora?: true | number;
  save?: string;
  reward?: string;
  data?: string;
  heldOut?: string;
  skipBad?: boolean;
  minReward?: number;
  /** Of a demo, beside its model and engine. */
  demo?: Pick<DemoOptions, "task" | "seed" | "steps" | "reward">;
}

const names = [
  "config",
  "stub",
  "autoAdjust",
  "tracker",
  "wandbProject",
  "model",
  "checkpoint",
  "lora",
  "engine",
  "gpus",
  "threads",
  "save",
  "reward",
  "data",
  "heldOut",
  "skipBad",
  "minReward",
  "demo",
] as const satisfies (keyof Invocation)[];

/** Those that name a file or folder, and mean the same from wherever the run is resumed. */
const paths = ["save", "reward", "data", "heldOut"] as const satisfies (keyof Invocation)[];

export function writeInvocation(dir: string, command: RunCommand, flags: Invocation, io: CliIo): void {
  const kept = Object.fromEntries(names.filter((name) => flags[name] !== undefined).map((name) => [name, flags[name]]));
  for (const name of paths) if (flags[name] !== undefined) kept[name] = pathOrRun(flags[name], io);
  // A model may be on the hub.
  if (flags.model !== undefined && existsSync(resolve(io.cwd, flags.model))) kept.model = resolve(io.cwd, flags.model);
  writeJsonAtomic(pathIn(dir, "cli"), { command, ...kept });
}

/** Runs made by the library have none. */
export function readInvocation(dir: string): Invocation & { command?: RunCommand } {
  const path = pathIn(dir, "cli");
  if (!existsSync(path)) return {};
  try {
    return JSON.parse(readPlainText(path)) as Invocation;
  } catch (error) {
    throw new StatesetError("CHECKPOINT_INVALID", `${path} cannot be read: ${messageOf(error)}.`, {
      hint: "It only holds the flags the run was started with: remove it, and give them again.",
      cause: error,
    });
  }
}

function commandFor(learner: LearnerKind): RunCommand | undefined {
  if (learner === "rl") return "train";
  if (learner === "sft" || learner === "reward-model") return learner;
  // The library alone trains a value function; the others are the losses of preferences.
  return learner === "value-function" ? undefined : "dpo";
}

/** The command that goes on with a run; undefined where none does. */
export function commandOf(dir: string, learner: LearnerKind | undefined): RunCommand | undefined {
  return readInvocation(dir).command ?? (learner && commandFor(learner));
}
