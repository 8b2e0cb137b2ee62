/**
 * The checkpoints of a run: `checkpoints/step-000123/` with the policy's snapshot, the trainer's state and a manifest of hashes,
 * and the files `last` and `best` that name one. A folder under its final name is complete: it was renamed into place.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { settleFolder, writeFileAtomic, writeFolderAtomic } from "../../durable.ts";
import { messageOf, StatesetError } from "../../error.ts";
import type { ModelInfo, SnapshotFiles, StoredFile } from "../../policy/policy.ts";
import { pathIn, runFiles, stepName, stepOf } from "../layout.ts";
import { type Manifest, verifyManifest, writeManifest } from "./manifest.ts";

/** A part of a run that has something to keep: the policy, a reference, a buffer. Its folder in a checkpoint has its name. */
export interface RunPart {
  /** Answers which files it wrote and hashed itself; others are read for that. */
  snapshot(dir: string): Promise<SnapshotFiles | undefined>;
  /** Goes back to what snapshot() wrote. */
  restore(dir: string): Promise<unknown>;
}

/** Puts back every part that a checkpoint holds. One it has nothing of had nothing to keep then. */
export async function restoreParts(dir: string, parts: Readonly<Record<string, RunPart>>): Promise<void> {
  for (const [name, part] of Object.entries(parts)) {
    if (existsSync(join(dir, name))) await part.restore(join(dir, name));
  }
}

export interface Checkpoint<State> {
  dir: string;
  step: number;
  state: State;
  manifest: Manifest;
}

export class CheckpointStore<State> {
  readonly dir: string;
  readonly #keep: number;

  constructor(runDir: string, keep: number) {
    this.dir = pathIn(runDir, "checkpoints");
    this.#keep = keep;
  }

  /** Writes a checkpoint and makes it the last one (and the best one). Older ones go, the best stays. */
  async save(
    model: ModelInfo,
    parts: Readonly<Record<string, RunPart>>,
    { step, state, best }: { step: number; state: State; best: boolean },
  ): Promise<string> {
    mkdirSync(this.dir, { recursive: true });
    settleFolder(this.dir);
    const dir = join(this.dir, stepName(step));
    await writeFolderAtomic(dir, async (temporary) => {
      const hashed: StoredFile[] = [];
      for (const [name, part] of Object.entries(parts)) {
        const written = await part.snapshot(join(temporary, name));
        for (const stored of written?.files ?? []) hashed.push({ ...stored, file: `${name}/${stored.file}` });
      }
      writeFileSync(join(temporary, "state.json"), JSON.stringify(state));
      writeManifest(temporary, { step, model: shapeOf(model) }, hashed);
    });
    if (best) writeFileAtomic(join(this.dir, "best"), stepName(step));
    writeFileAtomic(join(this.dir, "last"), stepName(step));
    this.#prune();
    return dir;
  }

  /** The folder of the best checkpoint, when one was named. */
  best(): string | undefined {
    return pointer(this.dir, "best");
  }

  /**
   * Before a run goes on after `step`: voids what lies beyond it, and makes up for what a kill left undone between
   * the checkpoint's appearance and the end of save().
   */
  repair(step: number, bestStep: number | undefined): void {
    if (!existsSync(this.dir)) return;
    for (const name of listSteps(this.dir)) {
      if (stepOf(name)! > step) rmSync(join(this.dir, name), { recursive: true, force: true });
    }
    if (bestStep !== undefined && existsSync(join(this.dir, stepName(bestStep)))) {
      writeFileAtomic(join(this.dir, "best"), stepName(bestStep));
    }
    if (existsSync(join(this.dir, stepName(step)))) writeFileAtomic(join(this.dir, "last"), stepName(step));
    this.#prune();
  }

  /** Keeps a checkpoint that cannot be used out of the way of those that can; whoever can mend it still has it. */
  setAside(dir: string): void {
    const aside = join(this.dir, `damaged-${basename(dir)}`);
    rmSync(aside, { recursive: true, force: true });
    renameSync(dir, aside);
  }

  #prune(): void {
    const best = this.best();
    const names = listSteps(this.dir);
    for (const name of names.slice(0, Math.max(0, names.length - this.#keep))) {
      const dir = join(this.dir, name);
      if (dir !== best) rmSync(dir, { recursive: true, force: true });
    }
  }
}

/**
 * Finds what to resume from: `path` is a run's folder, its checkpoints folder, or one checkpoint.
 * In a run, damaged checkpoints are reported and passed over. Undefined: a run that has none yet.
 */
export function findCheckpoint<State>(
  path: string,
  onDamaged: (message: string, dir: string) => void,
): Checkpoint<State> | undefined {
  if (!existsSync(path)) {
    throw new StatesetError("CHECKPOINT_NOT_FOUND", `There is no run and no checkpoint at ${path}.`, {
      hint: "Give a run's folder or one of its checkpoints/step-… folders.",
    });
  }
  if (stepOf(basename(resolve(path))) !== undefined) return open(path);
  const dir = basename(resolve(path)) === runFiles.checkpoints ? path : pathIn(path, "checkpoints");
  const names = listSteps(dir).reverse();
  let newest: string | undefined;
  for (const name of names) {
    try {
      return open(join(dir, name));
    } catch (error) {
      if (!StatesetError.isInstance(error)) throw error;
      newest ??= error.hint ? messageOf(error).replace(` ${error.hint}`, "") : messageOf(error);
      onDamaged(messageOf(error), join(dir, name));
    }
  }
  if (names.length > 0) {
    throw new StatesetError("CHECKPOINT_INVALID", `Every checkpoint in ${dir} is damaged. The newest: ${newest}`, {
      hint: "Start a new run, or restore the folder from a copy.",
    });
  }
  return undefined;
}

/** The run folder a path given to resume belongs to. */
export function runDirOf(path: string): string {
  const full = resolve(path);
  if (stepOf(basename(full)) !== undefined) return dirname(dirname(full));
  return basename(full) === runFiles.checkpoints ? dirname(full) : full;
}

/** The names of the checkpoints that are newer than the one a path names; none when it names none. */
export function laterCheckpoints(path: string): string[] {
  const full = resolve(path);
  const step = stepOf(basename(full));
  if (step === undefined) return [];
  return listSteps(dirname(full)).filter((name) => stepOf(name)! > step);
}

/** All of a run, oldest first, and the best. */
export function checkpointsOf(dir: string): { all: string[]; best: string | undefined } {
  const folder = pathIn(dir, "checkpoints");
  return { all: listSteps(folder).map((name) => join(folder, name)), best: pointer(folder, "best") };
}

/** Throws CHECKPOINT_MISMATCH when the checkpoint is of another model. */
export function assertSameModel(manifest: Manifest, model: ModelInfo, dir: string): void {
  const now = shapeOf(model);
  for (const key of ["architecture", "vocabSize", "parameters", "trainableParameters"] as const) {
    if (manifest.model[key] === now[key]) continue;
    throw new StatesetError(
      "CHECKPOINT_MISMATCH",
      `The checkpoint ${dir} belongs to another model: ${key} is ${manifest.model[key]} there and ${now[key]} here.`,
      { hint: `It was made with "${manifest.model.name}"; give the agent that model and the same LoRA options.` },
    );
  }
}

function open<State>(dir: string): Checkpoint<State> {
  const manifest = verifyManifest(dir);
  const state = JSON.parse(readFileSync(join(dir, "state.json"), "utf8")) as State;
  return { dir, step: manifest.step, state, manifest };
}

/** What makes weights fit a model; config.json says which model it was. */
function shapeOf(model: ModelInfo): Manifest["model"] {
  const { name, architecture, parameters, trainableParameters, vocabSize } = model;
  return { name, architecture, parameters, trainableParameters, vocabSize };
}

/** The names of the checkpoints in a folder, oldest first. */
export function listSteps(dir: string): string[] {
  if (!existsSync(dir)) return [];
  return readdirSync(dir)
    .filter((name) => stepOf(name) !== undefined)
    .sort((a, b) => stepOf(a)! - stepOf(b)!);
}

function pointer(dir: string, name: string): string | undefined {
  const path = join(dir, name);
  if (!existsSync(path)) return undefined;
  const target = join(dir, readFileSync(path, "utf8").trim());
  return existsSync(target) ? target : undefined;
}
