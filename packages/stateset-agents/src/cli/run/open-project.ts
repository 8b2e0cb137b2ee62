/** The configuration that a command works with, and what its flags change about it. */
import { existsSync, statSync } from "node:fs";
import { type ReadOptions, type SkippedLines, skippedText } from "../../conversation/read-entries.ts";
import { StatesetError } from "../../error.ts";
import { pick } from "../../options.ts";
import type { AgentOverrides, Loaded } from "../../project/build-project.ts";
import { findConfig, loadProject } from "../../project/load-project.ts";
import { trackerNamed } from "../../project/names.ts";
import type { Tracker } from "../../run/tracker.ts";
import { wandbTracker } from "../../telemetry/wandb.ts";
import { checkpointPath } from "../checkpoint-path.ts";
import { type CliIo, printJson } from "../io.ts";
import type { Invocation } from "./invocation.ts";
import { pathOrRun } from "./path-or-run.ts";

/** The project of the folder or of --config; `otherwise` where there is none and none is named. */
export async function loadConfig(
  flags: { config?: string | undefined; json?: boolean },
  otherwise: Loaded["config"] | undefined,
  io: CliIo,
): Promise<Loaded> {
  if (otherwise && flags.config === undefined && findConfig(io.cwd) === undefined) {
    return { config: otherwise, dir: io.cwd };
  }
  const { notes, ...loaded } = await loadProject(flags.config, io.cwd);
  for (const message of notes) {
    if (flags.json) printJson(io, { type: "notice", message });
    else io.stderr.write(`· ${message}\n`);
  }
  return loaded;
}

/** Whether bad lines of data are passed over, and how that is told. */
export function readingOf(
  { skipBad, json }: { skipBad?: boolean | undefined; json?: boolean },
  io: CliIo,
): ReadOptions {
  if (!skipBad) return {};
  const onSkipped = (skipped: SkippedLines) => {
    if (json) printJson(io, { type: "skipped", ...skipped });
    else io.stderr.write(`! ${skippedText(skipped)}\n`);
  };
  return { skipBad, onSkipped };
}

export function agentOverrides(flags: Invocation, io: CliIo): AgentOverrides {
  const { model, stub, lora, checkpoint } = flags;
  if (model !== undefined && checkpoint !== undefined) {
    throw new StatesetError("INVALID_OPTION", "--model and --checkpoint both say what to start from.", {
      hint: "Give one of them: a checkpoint knows its model.",
    });
  }
  if (stub && (checkpoint !== undefined || lora !== undefined)) {
    throw new StatesetError(
      "INVALID_OPTION",
      "--stub plays scripted replies: there is nothing to train from or with.",
      {
        hint: "Leave --checkpoint and --lora out, or leave --stub out to train.",
      },
    );
  }
  return {
    learns: true,
    ...(model !== undefined && { model }),
    ...pick(flags, ["engine", "gpus", "threads"]),
    ...(lora !== undefined && { lora }),
    ...(stub && { stub: true }),
    ...(checkpoint !== undefined && { checkpoint: checkpointPath(checkpoint, io) }),
  };
}

/** The same project with the reward of --reward: a file of code, or the run of a reward model. */
export function withReward(loaded: Loaded, reward: string | undefined, io: CliIo): Loaded {
  if (reward === undefined) return loaded;
  const path = pathOrRun(reward, io);
  if (!existsSync(path)) {
    throw new StatesetError("INVALID_OPTION", `There is no reward at ${path}.`, {
      hint: "Give a file whose default export is a reward, or the run of `npx stateset-agents reward-model`.",
    });
  }
  return {
    ...loaded,
    config: { ...loaded.config, reward: statSync(path).isDirectory() ? { rewardModel: path } : path },
  };
}

/** The project's trackers and those of the flags. */
export function trackersOf(own: readonly Tracker[], flags: Invocation): Tracker[] {
  const named = (flags.tracker ?? []).filter((name) => name !== "wandb" || flags.wandbProject === undefined);
  return [
    ...own,
    ...named.map((name) => trackerNamed(name, "--tracker")),
    ...(flags.wandbProject === undefined ? [] : [wandbTracker({ project: flags.wandbProject })]),
  ];
}
