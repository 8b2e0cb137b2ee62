/** The commands that learn from data: one run each, as `train` makes one. What they learn from is `read` by each. */
import { cpSync, existsSync } from "node:fs";
import { basename } from "node:path";
import type { Agent } from "../../agent/agent.ts";
import {
  buildParts,
  buildScene,
  closeProject,
  closeScene,
  type ProjectParts,
  type Scene,
} from "../../project/build-project.ts";
import type { RunCallbacks } from "../../run/callbacks.ts";
import { runDirOf } from "../../run/checkpoint/store.ts";
import { changesBetween, readConfig } from "../../run/config.ts";
import type { RunChoice } from "../../run/options.ts";
import { releaseEmpty } from "../../run/place.ts";
import { checkRunName } from "../../run/run-id.ts";
import type { FitResult } from "../../supervised/fit.ts";
import { alertWith } from "../../telemetry/alerts.ts";
import { createLiveView, type LiveView } from "../../telemetry/live-view.ts";
import { type CliIo, printJson, wantsColor } from "../io.ts";
import { acceptChanges, unasked } from "../run/accept-changes.ts";
import { interrupted, stopOnInterrupt } from "../run/interruption.ts";
import { readInvocation, writeInvocation } from "../run/invocation.ts";
import { agentOverrides, loadConfig, readingOf, trackersOf, withReward } from "../run/open-project.ts";
import { placeOf, resumePath, shown } from "../run/place.ts";
import type { Settings } from "../settings.ts";
import { changesSince } from "./changes.ts";
import { type LearnFlags, learnSettings } from "./flags.ts";
import { dropUnsampled, harvestFolder, stoppedText } from "./harvest.ts";
import { harvestStart, refuseOtherHarvest, refuseStopped, stoppedHarvest, writeHarvestStart } from "./harvest-start.ts";
import type { Data, Learner } from "./learner.ts";
import { printLearnt } from "./print-learnt.ts";
import { printLearnPlan } from "./print-plan.ts";
import { resolveSettings } from "./resolve-settings.ts";

export interface LearnJob {
  flags: LearnFlags;
  project: ProjectParts & Partial<Scene>;
  /** Of the section and the flags; of a run that goes on, of the flags alone; of a harvest that goes on, also its own. */
  settings: Settings;
  /** The run, or the checkpoint of one, that goes on. */
  resumeFrom: string | undefined;
  io: CliIo;
}

export interface Reading {
  agent: Agent;
  /** The run's folder. */
  dir: string;
  signal: AbortSignal;
  view: LiveView;
}

export interface LearnCommand<E> {
  learner: Learner<E>;
  /** Plays conversations, so that it needs an environment. */
  plays?: true;
  /** What is learnt from; undefined when the signal stopped it. Without `within` nothing may be written: it is for the plan. */
  read(job: LearnJob, within?: Reading): Promise<Data<E> | undefined>;
  /** Of a new run, instead of the plan of learning alone. */
  printPlan?(job: LearnJob): Promise<void>;
}

export async function runLearn<E>(command: LearnCommand<E>, given: LearnFlags, io: CliIo): Promise<void> {
  const { learner } = command;
  if (given.name !== undefined) checkRunName(given.name);
  const resumed = resumePath(given.resume, learner.command, io);
  const flags: LearnFlags = { ...(resumed !== undefined && readInvocation(runDirOf(resumed))), ...given };
  // What was stopped before its first step has no run yet: it begins where it left off.
  const stopped = command.plays && resumed !== undefined ? stoppedHarvest(runDirOf(resumed)) : undefined;
  const resumeFrom = stopped ? undefined : resumed;
  if (resumeFrom !== undefined) readConfig(runDirOf(resumeFrom));
  if (command.plays && resumed !== undefined) refuseOtherHarvest(given, stopped !== undefined);
  const overrides = agentOverrides(flags, io);
  const loaded = withReward(await loadConfig(flags, {}, io), flags.reward, io);
  const section = resumeFrom === undefined && !stopped ? loaded.config[learner.section] : undefined;
  const settings = learnSettings(stopped?.settings ?? section, learner.section, flags);
  const scene = command.plays ? await buildScene(loaded, readingOf(flags, io)) : {};
  const project = await openParts(() => buildParts(loaded, overrides), scene);
  const job: LearnJob = { flags, project, settings, resumeFrom, io };
  if (flags.dryRun) return printPlan(command, job);

  const json = flags.json === true;
  const view = createLiveView({ stream: io.stdout, ...(json && { mode: "json" as const }), color: wantsColor(io) });
  const interruption = stopOnInterrupt(view, io);
  let result: FitResult<object> | undefined;
  let place: { name?: string; dir?: string } = {};
  /** A harvest. */
  let begun = false;
  try {
    resolveSettings(learner, settings, resumeFrom);
    place = stopped
      ? { name: basename(runDirOf(resumed!)), dir: runDirOf(resumed!) }
      : placeOf(flags.name ?? section?.name, learner.command, resumeFrom, learner.command, io);
    const dir = place.dir ?? runDirOf(resumeFrom!);
    const kept = { ...flags, ...(overrides.checkpoint !== undefined && { checkpoint: overrides.checkpoint }) };
    const remember = (at: string) =>
      writeInvocation(
        at,
        learner.command,
        { ...kept, ...(project.file !== undefined && { config: project.file }) },
        io,
      );
    // Sampling may take long, and what it did can be taken up.
    if (command.plays && resumeFrom === undefined) {
      if (!stopped) refuseStopped(dir, io);
      const start = await harvestStart(project, { ...settings });
      const changes = stopped ? changesBetween(stopped, start) : [];
      await acceptChanges(unasked(changes, given), given, io, "start a new run");
      writeHarvestStart(dir, start);
      begun = !stopped;
      remember(dir);
    }
    const data = await command.read(job, { agent: project.agent, dir, signal: interruption.signal, view });
    if (data) {
      if (resumeFrom !== undefined) {
        const changes = await changesSince(resumeFrom, project.agent, data);
        await acceptChanges(unasked(changes, given), given, io);
      }
      const options: RunChoice = {
        ...place,
        ...(resumeFrom !== undefined && { resumeFrom }),
        ...(flags.discardLater && { discardLater: true }),
        trackers: trackersOf(project.trackers, flags),
        callbacks: [view, ...alertsOf(project, view, json, io), keepers(dir, remember)],
        signal: interruption.signal,
      };
      result = await learner.train(project.agent, data, { ...job.settings, ...options });
    } else place = { dir };
  } catch (error) {
    if (begun) dropUnsampled(place.dir!);
    throw error;
  } finally {
    interruption.done();
    if (typeof place.dir === "string") releaseEmpty(place.dir);
    await closeProject(project);
  }
  if (result === undefined || result.run.status === "interrupted") {
    const run = result?.run ?? { steps: 0, dir: place.dir, said: stoppedText(place.dir!) };
    throw interrupted(run, learner.command, interruption, json, io);
  }
  const config = project.file !== undefined && given.config !== undefined ? shown(project.file, io) : undefined;
  printLearnt(result, { learner, project, config, json }, io);
}

async function openParts(open: () => Promise<ProjectParts>, scene: Partial<Scene>): Promise<LearnJob["project"]> {
  try {
    return { ...(await open()), ...scene };
  } catch (error) {
    await closeScene(scene);
    throw error;
  }
}

async function printPlan<E>({ learner, read, printPlan: own }: LearnCommand<E>, job: LearnJob): Promise<void> {
  const { project, flags, resumeFrom, io } = job;
  try {
    await project.agent.initialize();
    resolveSettings(learner, job.settings, resumeFrom);
    if (own && resumeFrom === undefined) return await own(job);
    const data = (await read(job))!;
    const { policy } = project.agent;
    if (learner.section === "rewardModel") await policy.addValueHead();
    await printLearnPlan({ learner, policy, data, settings: job.settings, resumeFrom, json: flags.json === true, io });
  } finally {
    await closeProject(project);
  }
}

function alertsOf({ config: { alerts } }: ProjectParts, view: LiveView, json: boolean, io: CliIo): RunCallbacks[] {
  if (!alerts) return [];
  const warn = (message: string) => (json ? printJson(io, { type: "notice", message }) : view.note(`! ${message}`));
  return [alertWith(alerts, warn)];
}

/** What `--resume` alone needs, also of a run that was split off. */
function keepers(from: string, remember: (dir: string) => void): RunCallbacks {
  return {
    onStart({ dir }) {
      if (dir === undefined) return;
      remember(dir);
      const own = harvestFolder(dir);
      if (existsSync(harvestFolder(from)) && !existsSync(own)) cpSync(harvestFolder(from), own, { recursive: true });
    },
  };
}
