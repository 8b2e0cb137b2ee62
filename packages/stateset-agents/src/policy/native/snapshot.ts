import { join } from "node:path";
import type { RetainedTraining, TensorSpec, WeightsLoad } from "@stateset-agents/engine";
import { z } from "zod";
import { writeJsonAtomic } from "../../durable.ts";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { makeFolder } from "../files.ts";
import { loraSchema } from "../option-schemas.ts";
import type { LoraOptions, Version } from "../policy.ts";
import { readJsonObject } from "../tokenizer/model-json.ts";
import { openWeights, type TensorToWrite, type Weights, writeSafetensors } from "../weights/index.ts";
import { exists } from "../what-lies-at.ts";
import type { TensorTarget } from "./weights.ts";

/** What a snapshot holds beside the tensors. */
export interface SnapshotState {
  architecture: string;
  /** Of every trainable tensor, in order: what the snapshot fits. */
  shapes: Record<string, [number, number]>;
  lora: LoraOptions | null;
  valueHead: boolean;
  /** Optimiser steps of the policy and of the value head. */
  steps: [number, number];
  /** How many forward passes drew a dropout mask. */
  dropoutPasses: number;
  /** The name of the weights, so that a run that is resumed goes on with the names it had. */
  version: Version;
}

/** Written last; tells a snapshot from other folders. */
export const snapshotFile = "policy.json";
const tensorFile = "policy.safetensors";

const stateSchema = z.strictObject({
  format: z.literal("stateset-agents policy snapshot 2"),
  architecture: z.string(),
  shapes: z.record(z.string(), z.tuple([z.int(), z.int()])),
  lora: loraSchema.nullable(),
  valueHead: z.boolean(),
  steps: z.tuple([z.int().min(0), z.int().min(0)]),
  dropoutPasses: z.int().min(0),
  version: z.string(),
});

/** What the state file says beside what the tensors themselves tell. */
type WrittenState = Omit<SnapshotState, "shapes" | "valueHead" | "steps">;

/** Writes the trainable tensors with their moments; the state file comes last and makes the snapshot valid. */
export async function writeSnapshot(
  dir: string,
  trained: RetainedTraining,
  specs: readonly TensorSpec[],
  state: WrittenState,
): Promise<void> {
  const trainable = specs.filter((spec) => spec.trainable);
  // Both moments come in one reading and are written one after the other.
  let last: { name: string; moments: Promise<[Float32Array, Float32Array]> } | undefined;
  const momentsOf = (name: string) => {
    if (last?.name !== name) last = { name, moments: trained.readMoments(name) };
    return last.moments;
  };
  const tensors = trainable.flatMap(({ name, rows, cols }): TensorToWrite[] => {
    const shape = [rows, cols];
    return [
      { name, shape, data: () => trained.readTensor(name) },
      { name: `${name}:m`, shape, data: async () => (await momentsOf(name))[0] },
      { name: `${name}:v`, shape, data: async () => (await momentsOf(name))[1] },
    ];
  });
  await makeFolder(dir);
  await writeSafetensors(join(dir, tensorFile), tensors);
  const { architecture, lora, dropoutPasses, version } = state;
  writeJsonAtomic(join(dir, snapshotFile), {
    format: "stateset-agents policy snapshot 2",
    architecture,
    lora,
    valueHead: trainable.some(({ name }) => kindOf(name) === "value"),
    steps: trained.steps,
    dropoutPasses,
    version,
    shapes: Object.fromEntries(trainable.map(({ name, rows, cols }) => [name, [rows, cols]])),
  });
}

export async function readSnapshotState(dir: string): Promise<SnapshotState> {
  if (!(await exists(join(dir, snapshotFile)))) {
    throw new StatesetError("CHECKPOINT_NOT_FOUND", `${dir} holds no snapshot: there is no ${snapshotFile}.`);
  }
  let json: unknown;
  try {
    json = await readJsonObject(dir, snapshotFile);
  } catch (cause) {
    throw new StatesetError("CHECKPOINT_INVALID", `${join(dir, snapshotFile)} cannot be read.`, { cause });
  }
  const { format: _, ...state } = parseOptions(stateSchema, json, join(dir, snapshotFile), "CHECKPOINT_INVALID");
  return state;
}

export function kindOf(name: string): "base" | "adapter" | "value" {
  if (name.startsWith("value.")) return "value";
  return /\.lora_[ab]$/.test(name) ? "adapter" : "base";
}

/** The tensors of a snapshot, checked against those of a model: names, shapes, and that the file holds them. */
export class SnapshotTensors {
  readonly #dir: string;
  readonly #weights: Weights;
  /** What is trained, and so is in every snapshot of this model. */
  readonly #trained: readonly TensorSpec[];

  private constructor(dir: string, weights: Weights, specs: readonly TensorSpec[], state: SnapshotState) {
    this.#dir = dir;
    this.#weights = weights;
    this.#trained = specs.filter(({ name }) => kindOf(name) !== (state.lora ? "base" : "adapter"));
  }

  /** `anyHead`: whether it may have a value head that the model lacks, or lack the model's. */
  static async open(
    dir: string,
    specs: readonly TensorSpec[],
    state: SnapshotState,
    anyHead = false,
  ): Promise<SnapshotTensors> {
    const weights = await openWeights(join(dir, tensorFile)).catch((cause: unknown) => {
      throw new StatesetError("CHECKPOINT_INVALID", `The tensors of the snapshot in ${dir} cannot be read.`, { cause });
    });
    const tensors = new SnapshotTensors(dir, weights, specs, state);
    try {
      tensors.#check(state, anyHead);
      return tensors;
    } catch (error) {
      await weights.close();
      throw error;
    }
  }

  #check(state: SnapshotState, anyHead: boolean): void {
    for (const { name, rows, cols } of this.#trained) {
      const shape = state.shapes[name];
      if (!shape && anyHead && kindOf(name) === "value") continue;
      if (!shape || shape[0] !== rows || shape[1] !== cols) {
        throw mismatch(this.#dir, `${name} is [${rows}, ${cols}] here`);
      }
    }
    const known = new Set(this.#trained.map(({ name }) => name));
    const foreign = Object.keys(state.shapes).filter((name) => !known.has(name));
    if (foreign.some((name) => !anyHead || kindOf(name) !== "value")) {
      throw mismatch(this.#dir, "it has other trainable tensors");
    }
    for (const spec of this.#present(state)) for (const end of ["", ":m", ":v"]) this.#checkSize(spec, end);
  }

  #checkSize({ name, rows, cols }: TensorSpec, end: string): void {
    const full = `${name}${end}`;
    const size = this.#weights.has(full) ? this.#weights.info(full).shape.reduce((a, b) => a * b, 1) : -1;
    if (size === rows * cols) return;
    throw new StatesetError(
      "CHECKPOINT_INVALID",
      `The snapshot in ${this.#dir} lacks ${full}, or has it in another size.`,
    );
  }

  #present(state: SnapshotState): TensorSpec[] {
    return this.#trained.filter(({ name }) => name in state.shapes);
  }

  async #read(name: string): Promise<Float32Array> {
    return this.#weights.read(name).catch((cause: unknown) => {
      throw new StatesetError("CHECKPOINT_INVALID", `The tensors of the snapshot in ${this.#dir} are damaged.`, {
        cause,
      });
    });
  }

  /** The trained weights alone. */
  async weightsInto(target: TensorTarget, state: SnapshotState): Promise<void> {
    for (const { name } of this.#present(state)) await target.setTensor(name, await this.#read(name));
  }

  /** With the optimiser's state. */
  async allInto(load: WeightsLoad, state: SnapshotState): Promise<void> {
    await this.weightsInto(load, state);
    for (const { name } of this.#present(state)) {
      await load.setMoments(name, await this.#read(`${name}:m`), await this.#read(`${name}:v`));
    }
    await load.setStepCounts(...state.steps);
  }

  close(): Promise<void> {
    return this.#weights.close();
  }
}

export function mismatch(dir: string, what: string): StatesetError {
  return new StatesetError("CHECKPOINT_MISMATCH", `The snapshot in ${dir} is of another model: ${what}.`, {
    hint: "Load the same model with the same adapter options as the run that wrote it.",
  });
}
