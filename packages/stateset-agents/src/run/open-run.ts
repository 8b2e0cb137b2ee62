import { existsSync } from "node:fs";
import { counted } from "../counted.ts";
import { settleFolder } from "../durable.ts";
import { messageOf, StatesetError } from "../error.ts";
import type { Policy } from "../policy/policy.ts";
import type { AnyCallbacks } from "./callbacks.ts";
import { assertSameModel, type Checkpoint, findCheckpoint } from "./checkpoint/store.ts";
import { type Change, changesBetween, type LearnerKind, type RunConfig, readConfig } from "./config.ts";
import type { StepMetrics } from "./event.ts";
import { pathIn } from "./layout.ts";
import { readJsonLines } from "./log.ts";
import { findPlace, type RunPlace } from "./place.ts";
import { Run, type SavedRun } from "./run.ts";
import type { Tracker } from "./tracker.ts";
import { trackerCallbacks } from "./tracker-callbacks.ts";

export interface OpenRunOptions {
  /** A run that is given no name is called after it and the time. */
  nameAfter: string;
  place: RunPlace;
  config: Omit<RunConfig, "version" | "id" | "forkedFrom">;
  steps: number;
  /** Checkpoints to keep. */
  keep: number;
  callbacks: readonly AnyCallbacks[];
  trackers: readonly Tracker[];
  signal: AbortSignal | undefined;
}

export interface OpenedRun<State> {
  run: Run<State>;
  /** What the learner has to put back; undefined: it begins. */
  checkpoint: Checkpoint<SavedRun<State>> | undefined;
  /** It had stopped early, or was split off from one that had, and somebody asks for more: what made it stop counts anew. */
  takenUp: boolean;
}

/** Finds or makes the folder, takes its lock, and finds what to go on from. Nothing of the policy is touched. */
export async function openRun<State>(options: OpenRunOptions, policy: Policy): Promise<OpenedRun<State>> {
  const { nameAfter, place, steps, keep, signal } = options;
  const { id, dir, resumeFrom } = await findPlace(place, nameAfter);
  const saved = resumeFrom === undefined ? undefined : readConfig(dir!);
  const config: RunConfig = {
    version: 2,
    id,
    ...options.config,
    ...(saved?.forkedFrom && { forkedFrom: saved.forkedFrom }),
  };
  const run = new Run<State>({
    ...{ id, dir, config, steps, keep, signal },
    callbacks: options.callbacks,
    resumed: resumeFrom !== undefined,
  });
  try {
    const trackers = trackerCallbacks(options.trackers, (message) => {
      void run.say({ kind: "tracker-failed", message });
    });
    if (trackers) run.add(trackers);
    if (resumeFrom === undefined) {
      run.writeConfig();
      return { run, checkpoint: undefined, takenUp: false };
    }
    for (const folder of [dir!, pathIn(dir!, "checkpoints"), pathIn(dir!, "trajectories")]) settleFolder(folder);
    const checkpoint = await takeUp(run, resumeFrom, (found) => {
      assertSameModel(found.manifest, policy.model, found.dir);
      if (found.step > steps) throw alreadyDone(found.step, steps, config);
    });
    if (!checkpoint) refuseWithout(dir!);
    if (!checkpoint) {
      const message = `${dir} holds no checkpoint yet: the run starts again from its first step.`;
      await run.say({ kind: "restarted", message });
    }
    await run.restore(checkpoint?.state, checkpoint?.step ?? 0);
    const split = config.forkedFrom !== undefined && config.forkedFrom.step === checkpoint?.step;
    const takenUp = run.stopped !== null && (run.before?.state === "stopped-early" || split);
    if (takenUp) run.stopped = null;
    run.writeConfig();
    return { run, checkpoint, takenUp };
  } catch (error) {
    if (run.before) run.leave();
    else run.close("failed", messageOf(error));
    throw error;
  }
}

/** What a run goes on from, if it is `fit` for that; damaged checkpoints are told of and put aside. Undefined where there is none. */
export async function takeUp<State>(
  run: Run<State>,
  from: string | undefined,
  fit: (checkpoint: Checkpoint<SavedRun<State>>) => void = () => {},
): Promise<Checkpoint<SavedRun<State>> | undefined> {
  if (from === undefined) return undefined;
  const damaged: { message: string; dir: string }[] = [];
  const checkpoint = findCheckpoint<SavedRun<State>>(from, (message, at) => damaged.push({ message, dir: at }));
  if (checkpoint) fit(checkpoint);
  for (const { message, dir: at } of damaged) {
    run.store!.setAside(at);
    await run.say({ kind: "checkpoint-damaged", message });
  }
  return checkpoint;
}

/** To start a run again voids its records, and what it has come to: not where it ended and only its checkpoints were removed. */
function refuseWithout(dir: string): void {
  const done = readJsonLines<StepMetrics>(pathIn(dir, "metrics")).findLast(({ step }) => step > 0);
  if (done === undefined || !existsSync(pathIn(dir, "final"))) return;
  throw new StatesetError("CHECKPOINT_NOT_FOUND", `The run in ${dir} ended, and its checkpoints were removed.`, {
    hint: `Start a new run from ${pathIn(dir, "final")}.`,
  });
}

function alreadyDone(done: number, steps: number, { id, learner }: RunConfig): StatesetError {
  return new StatesetError(
    "INVALID_OPTION",
    `The run "${id}" has done ${counted(done, "step")}, and is to do ${steps} in all.`,
    {
      hint: `Give it more ${learner === "rl" ? "steps" : "epochs"} than that, or split off a new run from an earlier checkpoint.`,
    },
  );
}

/** What a run that is taken up again would do otherwise, and a refusal where it cannot be the same run. */
export function changesOnResume(saved: RunConfig, now: Omit<RunConfig, "version" | "id" | "forkedFrom">): Change[] {
  requireSameLearner(saved, now.learner, now.algorithm?.algorithm);
  return changesBetween(saved, { ...now, version: 2, id: saved.id });
}

/** Refuses to take up the run of another kind of learner. `where` names the one that was asked: "train()". */
export function requireLearner({ id, learner }: RunConfig, kinds: readonly LearnerKind[], where: string): void {
  if (kinds.includes(learner)) return;
  throw new StatesetError("CHECKPOINT_MISMATCH", `The run "${id}" is not one of ${where}: it is ${learner}.`, {
    hint: "Take it up with what it was begun with.",
  });
}

function requireSameLearner(saved: RunConfig, learner: LearnerKind, algorithm: string | undefined): void {
  const [was, is] = [saved.algorithm?.algorithm ?? saved.learner, algorithm ?? learner];
  if (was === is) return;
  throw new StatesetError("CHECKPOINT_MISMATCH", `The run "${saved.id}" was trained with ${was}, not with ${is}.`, {
    hint: "Go on with what it was begun with, or start a new run from its final/ folder or a checkpoint.",
  });
}
