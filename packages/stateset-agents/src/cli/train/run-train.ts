import { existsSync } from "node:fs";
import { isAbsolute, join, relative, resolve } from "node:path";
import { StatesetError } from "../../error.ts";
import { buildProject, defaultConfig, type Project } from "../../project/build-project.ts";
import { findConfig, loadProject } from "../../project/load-project.ts";
import { trackerNamed } from "../../project/names.ts";
import { runDirOf } from "../../run/checkpoint/store.ts";
import { readConfig } from "../../run/config.ts";
import { claimFolder, releaseEmpty } from "../../run/place.ts";
import { listRuns } from "../../run/read-run.ts";
import { checkRunName } from "../../run/run-id.ts";
import { alertWith } from "../../telemetry/alerts.ts";
import { createLiveView, type LiveView } from "../../telemetry/live-view.ts";
import { type AutoAdjust, autoAdjust } from "../../training/auto-adjust.ts";
import type { TrainingCallbacks } from "../../training/callbacks.ts";
import { type HealthWatch, watchHealth } from "../../training/diagnostics/watch.ts";
import { resolveRun } from "../../training/resolve-run.ts";
import { type TrainResult, train } from "../../training/train.ts";
import type { TrainOptions } from "../../training/train-options.ts";
import type { InterruptCode } from "../exit-codes.ts";
import { CliExit } from "../failure.ts";
import { type CliIo, colorsOf, print, printJson, wantsColor } from "../io.ts";
import { acceptChanges, unasked } from "./accept-changes.ts";
import { applyFlags, type TrainFlags } from "./flags.ts";
import { readInvocation, writeInvocation } from "./invocation.ts";
import { printPlan } from "./print-plan.ts";
import { printResult } from "./print-result.ts";

/** The `train` command. */
export async function runTrain(given: TrainFlags, io: CliIo): Promise<void> {
  if (given.name !== undefined) checkRunName(given.name);
  const resumeFrom = given.resume === undefined ? undefined : resumePath(given.resume, io);
  const flags: TrainFlags = resumeFrom === undefined ? given : { ...readInvocation(runDirOf(resumeFrom)), ...given };
  const project = await openProject(flags, io);
  // A resumed run goes on with its own settings; only what is on the command line changes them.
  const own = resumeFrom === undefined ? project.config.training : algorithmOf(resumeFrom, project);
  const settings = applyFlags({ ...own }, flags);
  const profile = flags.profile ?? (resumeFrom === undefined ? project.config.profile : undefined);
  const health = healthOf(project, flags);
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
    place = placeOf(flags, project, resumeFrom, settings.algorithm, io);
    const result = await train({
      ...options,
      ...place,
      ...(flags.discardLater && { discardLater: true }),
      trackers: [...project.trackers, ...(flags.tracker ?? []).map((name) => trackerNamed(name, "--tracker"))],
      callbacks: [...onlookers(project, health, view, warn), keepInvocation(flags, project)],
      ...(flags.save !== undefined && { savePath: resolve(io.cwd, flags.save) }),
      signal: interruption.signal,
    });
    run = result.run;
  } finally {
    interruption.done();
    if (typeof place.dir === "string") releaseEmpty(place.dir);
    await closeQuietly(project);
  }
  if (run.status === "interrupted") {
    const command = `npx stateset-agents train --resume ${shown(run.dir ?? "", io)}`;
    if (flags.json) printJson(io, { type: "interrupted", steps: run.steps, resumeFrom: run.dir, command });
    else print(io, "", `Stopped after step ${run.steps} and saved. Go on with:`, `  ${colorsOf(io).cyan(command)}`);
    throw new CliExit(interruption.status());
  }
  printResult(run, flags.json === true, io, (path) => shown(path, io));
}

async function openProject(flags: TrainFlags, io: CliIo): Promise<Project> {
  const overrides = {
    ...(flags.model !== undefined && { model: flags.model }),
    ...(flags.threads !== undefined && { threads: flags.threads }),
    ...(flags.stub && { stub: true }),
  };
  if (flags.config === undefined && flags.stub && findConfig(io.cwd) === undefined) {
    return buildProject({ config: defaultConfig, dir: io.cwd }, overrides);
  }
  const loaded = await loadProject(flags.config, io.cwd);
  for (const note of loaded.notes) io.stderr.write(`· ${note}\n`);
  return buildProject(loaded, overrides);
}

/** Of the run that is resumed. An algorithm of the project's own making cannot be read back from a file. */
function algorithmOf(resumeFrom: string, { config }: Project): Record<string, unknown> {
  const saved = readConfig(runDirOf(resumeFrom)).algorithm;
  const made = config.training?.algorithm;
  return typeof made === "object" && made.name === saved?.algorithm ? { algorithm: made } : { ...saved };
}

/** Watches the run's health, and acts on it where that is asked for. */
function healthOf({ config: { autoAdjust: configured } }: Project, flags: TrainFlags): AutoAdjust | HealthWatch {
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

function keepInvocation(flags: TrainFlags, project: Project): TrainingCallbacks {
  return {
    onStart({ dir }) {
      if (dir !== undefined)
        writeInvocation(dir, { ...flags, ...(project.file !== undefined && { config: project.file }) });
    },
  };
}

/** First Ctrl-C: stop sampling and save. Second: leave at once. */
function stopOnInterrupt(view: LiveView, io: CliIo): { signal: AbortSignal; status(): InterruptCode; done(): void } {
  const controller = new AbortController();
  let status: InterruptCode = 130;
  const done = io.onInterrupt((asked) => {
    if (controller.signal.aborted) process.exit(asked);
    status = asked;
    controller.abort();
    view.note("Saving the steps done … (Ctrl-C again stops at once)");
  });
  return { signal: controller.signal, status: () => status, done };
}

function resumePath(resume: string | true, io: CliIo): string {
  if (resume !== true) {
    const named = join(io.cwd, "runs", resume);
    return !existsSync(resolve(io.cwd, resume)) && existsSync(named) ? named : resolve(io.cwd, resume);
  }
  const newest = listRuns(join(io.cwd, "runs")).find(({ config }) => config?.learner === "rl");
  if (newest) return newest.dir;
  throw new StatesetError("CHECKPOINT_NOT_FOUND", `There is no run to resume in ${join(io.cwd, "runs")}.`, {
    hint: "Name a run's folder: --resume <folder>.",
  });
}

/** A run that is resumed stays where it is, unless it is given another name. */
function placeOf(
  { name }: TrainFlags,
  { config }: Project,
  resumeFrom: string | undefined,
  algorithm: unknown,
  io: CliIo,
): Pick<TrainOptions, "name" | "dir"> {
  if (resumeFrom !== undefined) return name === undefined ? {} : { name };
  const chosen = name ?? config.name;
  if (chosen !== undefined) return { name: checkRunName(chosen), dir: resolve(io.cwd, "runs", chosen) };
  const named = typeof algorithm === "string" ? algorithm : (algorithm as { name?: string } | undefined)?.name;
  const { id, dir } = claimFolder(join(io.cwd, "runs"), named ?? "grpo");
  return { name: id, dir };
}

function shown(path: string, io: CliIo): string {
  const short = isAbsolute(path) ? relative(io.cwd, path) : path;
  return short.startsWith("..") ? path : short;
}

/** What happens to the model at the end of the process must not hide how the run ended. */
async function closeQuietly({ agent, environment }: Project): Promise<void> {
  await Promise.allSettled([agent.close(), environment.close()]);
}
