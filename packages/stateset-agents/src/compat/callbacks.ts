/** Callbacks under the names of the Python system. */
import { mkdirSync, rmSync } from "node:fs";
import { cp } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { z } from "zod";
import { settleFolder, writeFolderAtomic } from "../durable.ts";
import { StatesetError } from "../error.ts";
import { EarlyStopping, type EarlyStoppingOptions, type EarlyStoppingState } from "../evaluation/early-stopping.ts";
import { parseOptions } from "../options.ts";
import type { RunCallbacks, StopRun } from "../run/callbacks.ts";
import { listSteps } from "../run/checkpoint/store.ts";
import type { RewardEvaluation } from "../run/event.ts";
import type { TrainingCallbacks, TrainingStart, TrainingStepEnd } from "../training/callbacks.ts";

/**
 * Stops train() when it no longer improves: after `patience` evaluations of the selection scenarios without a better one, or, in a run
 * that evaluates nothing on the way, after as many steps without a better mean reward. That mean is of other scenarios at each step,
 * hence noisy: hold scenarios out, and prefer the option `earlyStopping`, where you can.
 */
export class EarlyStoppingCallback implements TrainingCallbacks {
  readonly name = "EarlyStoppingCallback";
  readonly #options: EarlyStoppingOptions;
  #decides: EarlyStopping;
  #evaluates = false;

  constructor(options: EarlyStoppingOptions = {}) {
    this.#options = options;
    this.#decides = new EarlyStopping(options);
  }

  onStart({ saved, config }: TrainingStart): void {
    this.#evaluates = saved.heldOut !== undefined && config.evaluation.every > 0;
  }

  onEvaluation({ step, set, reward, stop }: RewardEvaluation & { stop: StopRun }): void {
    // Step 0 is the policy as it was given: what counts is whether training gets on.
    if (set === "selection" && step > 0) this.#observe(step, reward.mean, stop);
  }

  onStepEnd({ step, metrics, stop }: TrainingStepEnd): void {
    if (!this.#evaluates && metrics.reward !== undefined) this.#observe(step, metrics.reward, stop);
  }

  state(): EarlyStoppingState {
    return this.#decides.state();
  }

  restore(state: unknown): void {
    this.#decides.restore(state as EarlyStoppingState);
  }

  #observe(step: number, score: number, stop: StopRun): void {
    const { stop: enough, reason } = this.#decides.observe(step, score, this.#evaluates ? "evaluation" : "step");
    if (!enough) return;
    // Whoever asks a stopped run for more steps gets all the patience again.
    this.#decides = new EarlyStopping(this.#options);
    stop(reason!);
  }
}

export interface CheckpointCallbackOptions {
  /** Gets the copies, under the names they have in the run: `step-000025`. */
  saveDir: string;
  /** Copies to keep, newest first. Left out: all. */
  keep?: number | undefined;
}

const checkpointSchema = z.strictObject({ saveDir: z.string().min(1), keep: z.int().min(1).optional() });

/**
 * Copies every checkpoint of a run to another folder. The run decides when it writes one (`checkpoint.every`) and removes old ones of
 * its own; the copies stay.
 */
export class CheckpointCallback implements RunCallbacks {
  readonly #saveDir: string;
  readonly #keep: number;

  constructor(options: CheckpointCallbackOptions) {
    const { saveDir, keep } = parseOptions(checkpointSchema, options, "CheckpointCallback");
    this.#saveDir = resolve(saveDir);
    this.#keep = keep ?? Number.POSITIVE_INFINITY;
  }

  onStart({ dir }: { dir: string | undefined }): void {
    if (dir !== undefined) return;
    throw new StatesetError("INVALID_OPTION", "CheckpointCallback has nothing to copy: the run keeps no files.", {
      hint: "Leave out `dir: false`.",
    });
  }

  async onCheckpoint({ dir }: { dir: string }): Promise<void> {
    mkdirSync(this.#saveDir, { recursive: true });
    settleFolder(this.#saveDir);
    await writeFolderAtomic(join(this.#saveDir, basename(dir)), (temporary) => cp(dir, temporary, { recursive: true }));
    const names = listSteps(this.#saveDir);
    for (const name of names.slice(0, Math.max(0, names.length - this.#keep))) {
      rmSync(join(this.#saveDir, name), { recursive: true, force: true });
    }
  }
}
