import { resolve } from "node:path";
import { buildProject, closeProject, defaultConfig, type Project } from "../../project/build-project.ts";
import type { ProjectConfig } from "../../project/define-config.ts";
import { runDirOf } from "../../run/checkpoint/store.ts";
import { readConfig } from "../../run/config.ts";
import { releaseEmpty } from "../../run/place.ts";
import { checkRunName } from "../../run/run-id.ts";
import { alertWith } from "../../telemetry/alerts.ts";
import { createLiveView, type LiveView } from "../../telemetry/live-view.ts";
import { type AutoAdjust, autoAdjust } from "../../training/auto-adjust.ts";
import type { TrainingCallbacks } from "../../training/callbacks.ts";
import { type HealthWatch, watchHealth } from "../../training/diagnostics/watch.ts";
import { resolveRun } from "../../training/resolve-run.ts";
import { type TrainResult, train } from "../../training/train.ts";
import type { TrainOptions } from "../../training/train-options.ts";
import { type CliIo, printJson, wantsColor } from "../io.ts";
import { acceptChanges, unasked } from "../run/accept-changes.ts";
import { interrupted, stopOnInterrupt } from "../run/interruption.ts";
import { readInvocation, writeInvocation } from "../run/invocation.ts";
import { agentOverrides, loadConfig, readingOf, trackersOf, withReward } from "../run/open-project.ts";
import { placeOf, resumePath, shown } from "../run/place.ts";
import { applyFlags, type TrainFlags } from "./flags.ts";
import { printPlan } from "./print-plan.ts";
import { printResult } from "./print-result.ts";

/** The `train` command. */
export async function runTrain(given: TrainFlags, io: CliIo): Promise<void> {
  if (given.name !== undefined) checkRunName(given.name);
  const resumeFrom = resumePath(given.resume, "train", io);
  const flags: TrainFlags = {
    ...(resumeFrom !== undefined && (readInvocation(runDirOf(resumeFrom)) as TrainFlags)),
    ...given,
  };
  const overrides = agentOverrides(flags, io);
  const loaded = withReward(await loadConfig(flags, flags.stub ? defaultConfig : undefined, io), flags.reward, io);
  // A resumed run goes on with its own settings; only what is on the command line changes them.
  const own = resumeFrom === undefined ? loaded.config.training : algorithmOf(resumeFrom, loaded.config);
  const settings = applyFlags({ ...own }, flags);
  const profile = flags.profile ?? (resumeFrom === undefined ? loaded.config.profile : undefined);
  const health = healthOf(loaded.config, flags);
  // Last, for what is opened has to be closed.
  const project = await buildProject(loaded, overrides, readingOf(flags, io));
  if (flags.dryRun) {
    await printPlan({ project, settings, profile, resumeFrom, callbacks: [health], json: flags.json === true, io });
    return;
  }

  const view = createLiveView({
    stream: io.stdout,
    ...(flags.json && { mode: "json" as const }),
    color: wantsColor(io),
    ...(flags.stub && { title: "STUB: nothing is learnt" }),
  });
  const warn = (message: string) =>
    flags.json ? printJson(io, { type: "notice", message }) : view.note(`! ${message}`);
  const interruption = stopOnInterrupt(view, io);
  let run: TrainResult["run"];
  let place: Pick<TrainOptions, "name" | "dir"> = {};
  try {
    const { agent, environment, reward, heldOut } = project;
    const options = { ...settings, agent, environment, reward, heldOut, profile, resumeFrom } as TrainOptions;
    if (resumeFrom !== undefined) {
      await acceptChanges(unasked((await resolveRun(options)).changes, given), given, io);
    }
    const name = flags.name ?? (resumeFrom === undefined ? project.config.name : undefined);
    place = placeOf(name, "train", resumeFrom, algorithmName(settings.algorithm), io);
    const kept = { ...flags, ...(overrides.checkpoint !== undefined && { checkpoint: overrides.checkpoint }) };
    const result = await train({
      ...options,
      ...place,
      ...(flags.discardLater && { discardLater: true }),
      trackers: trackersOf(project.trackers, flags),
      callbacks: [...onlookers(project, health, view, warn), keepInvocation(kept, project, io)],
      ...savePathOf(flags, project, io),
      signal: interruption.signal,
    });
    run = result.run;
  } finally {
    interruption.done();
    if (typeof place.dir === "string") releaseEmpty(place.dir);
    await closeProject(project);
  }
  if (run.status === "interrupted") throw interrupted(run, "train", interruption, flags.json === true, io);
  const config = project.file !== undefined && flags.config !== undefined ? shown(project.file, io) : undefined;
  printResult(
    run,
    { json: flags.json === true, config, reward: flags.reward, hasProject: project.file !== undefined },
    io,
  );
}

/** Of the run that is resumed. An algorithm of the project's own making cannot be read back from a file. */
function algorithmOf(resumeFrom: string, config: ProjectConfig): Record<string, unknown> {
  const saved = readConfig(runDirOf(resumeFrom)).algorithm;
  const made = config.training?.algorithm;
  return typeof made === "object" && made.name === saved?.algorithm ? { algorithm: made } : { ...saved };
}

function algorithmName(algorithm: unknown): string {
  const named = typeof algorithm === "string" ? algorithm : (algorithm as { name?: string } | undefined)?.name;
  return named ?? "grpo";
}

/** A flag is relative to the working folder, the configuration's own path to the configuration. */
function savePathOf({ save }: TrainFlags, { config, dir }: Project, io: CliIo): Pick<TrainOptions, "savePath"> {
  if (save !== undefined) return { savePath: resolve(io.cwd, save) };
  return config.savePath === undefined ? {} : { savePath: resolve(dir, config.savePath) };
}

/** Watches the run's health, and acts on it where that is asked for. */
function healthOf({ autoAdjust: configured }: ProjectConfig, flags: TrainFlags): AutoAdjust | HealthWatch {
  const adjusts = flags.autoAdjust ?? (configured !== undefined && configured !== false);
  return adjusts ? autoAdjust(typeof configured === "object" ? configured : {}) : watchHealth();
}

/** The live view, the health watch and the alerts. */
function onlookers(
  { config: { alerts } }: Project,
  health: AutoAdjust | HealthWatch,
  view: LiveView,
  warn: (message: string) => void,
): TrainingCallbacks[] {
  const alerter = alerts && alertWith(alerts, warn);
  const recheck: TrainingCallbacks = { onStepEnd: () => view.recheck(({ kind }) => health.monitor.holds(kind)) };
  return [view, health, recheck, ...(alerter ? [alerter] : [])];
}

function keepInvocation(flags: TrainFlags, { file }: Project, io: CliIo): TrainingCallbacks {
  return {
    onStart({ dir }) {
      if (dir !== undefined)
        writeInvocation(dir, "train", { ...flags, ...(file !== undefined && { config: file }) }, io);
    },
  };
}
