import { join } from "node:path";
import type { Model } from "@stateset-agents/engine";
import { z } from "zod";
import { writeJsonAtomic } from "../../durable.ts";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import type { LoraOptions } from "../policy.ts";
import { readJsonObject } from "../tokenizer/model-json.ts";
import { openWeights, type TensorToWrite, type Weights, writeSafetensors } from "../weights/index.ts";
import { exists, makeFolder } from "./files.ts";

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
  /** Where the frozen reference's weights are: not made, the weights the model was loaded with, or in the snapshot. */
  reference: "none" | "loaded" | "saved";
}

const stateFile = "policy.json";
const tensorFile = "policy.safetensors";

const stateSchema = z.strictObject({
  format: z.literal("stateset-agents policy snapshot 1"),
  architecture: z.string(),
  shapes: z.record(z.string(), z.tuple([z.int(), z.int()])),
  lora: z
    .strictObject({
      rank: z.int(),
      alpha: z.number(),
      dropout: z.number(),
      targetModules: z.union([z.literal("all-linear"), z.array(z.string())]),
    })
    .nullable(),
  valueHead: z.boolean(),
  steps: z.tuple([z.int().min(0), z.int().min(0)]),
  dropoutPasses: z.int().min(0),
  reference: z.enum(["none", "loaded", "saved"]),
});

/** Writes the trainable tensors with their moments; the state file comes last and makes the snapshot valid. */
export async function writeSnapshot(dir: string, model: Model, state: Omit<SnapshotState, "shapes">): Promise<void> {
  const specs = await model.tensors();
  const tensors: TensorToWrite[] = [];
  const trainable = specs.filter((spec) => spec.trainable);
  for (const { name, rows, cols } of trainable) {
    const [m, v] = await model.readMoments(name);
    const shape = [rows, cols];
    tensors.push({ name, shape, data: await model.readTensor(name) });
    tensors.push({ name: `${name}:m`, shape, data: m }, { name: `${name}:v`, shape, data: v });
  }
  if (state.reference === "saved") {
    for (const { name, rows, cols } of specs.filter((spec) => !/^value\.|\.lora_[ab]$/.test(spec.name))) {
      const data = await model.readTensor(name, "reference");
      tensors.push({ name: `${name}:reference`, shape: [rows, cols], data });
    }
  }
  await makeFolder(dir);
  await writeSafetensors(join(dir, tensorFile), tensors);
  const shapes = Object.fromEntries(trainable.map(({ name, rows, cols }) => [name, [rows, cols]]));
  writeJsonAtomic(join(dir, stateFile), { format: "stateset-agents policy snapshot 1", ...state, shapes });
}

export async function readSnapshotState(dir: string): Promise<SnapshotState> {
  if (!(await exists(join(dir, stateFile)))) {
    throw new StatesetError("CHECKPOINT_NOT_FOUND", `${dir} holds no snapshot: there is no ${stateFile}.`);
  }
  let json: unknown;
  try {
    json = await readJsonObject(dir, stateFile);
  } catch (cause) {
    throw new StatesetError("CHECKPOINT_INVALID", `${join(dir, stateFile)} cannot be read.`, { cause });
  }
  const { format: _, ...state } = parseOptions(stateSchema, json, join(dir, stateFile), "CHECKPOINT_INVALID");
  return state;
}

/** Puts the tensors back. Everything is checked and read before the first one is set, so a bad snapshot changes nothing. */
export async function restoreTensors(dir: string, model: Model, state: SnapshotState): Promise<void> {
  const trainable = (await model.tensors()).filter((spec) => spec.trainable);
  for (const { name, rows, cols } of trainable) {
    const shape = state.shapes[name];
    if (!shape || shape[0] !== rows || shape[1] !== cols) throw mismatch(dir, `${name} is [${rows}, ${cols}] here`);
  }
  if (Object.keys(state.shapes).length !== trainable.length) throw mismatch(dir, "it has other trainable tensors");
  const weights = await openWeights(join(dir, tensorFile)).catch((cause: unknown) => {
    throw new StatesetError("CHECKPOINT_INVALID", `The tensors of the snapshot in ${dir} cannot be read.`, { cause });
  });
  try {
    const all = await readAll(dir, weights);
    const take = (name: string, size: number) => {
      const data = all.get(name);
      if (data?.length === size) return data;
      throw new StatesetError("CHECKPOINT_INVALID", `The snapshot in ${dir} lacks ${name}, or has it in another size.`);
    };
    const found = trainable.map(({ name, rows, cols }) => ({
      name,
      data: take(name, rows * cols),
      m: take(`${name}:m`, rows * cols),
      v: take(`${name}:v`, rows * cols),
    }));
    for (const { name, data, m, v } of found) {
      await model.setTensor(name, data);
      await model.writeMoments(name, m, v);
    }
    await model.setStepCounts(...state.steps);
    if (state.reference === "saved") {
      for (const [name, data] of all) {
        if (name.endsWith(":reference")) await model.setTensor(name.slice(0, -":reference".length), data, "reference");
      }
    }
  } finally {
    await weights.close();
  }
}

async function readAll(dir: string, weights: Weights): Promise<Map<string, Float32Array>> {
  const all = new Map<string, Float32Array>();
  try {
    for (const name of weights.names) all.set(name, await weights.read(name));
  } catch (cause) {
    throw new StatesetError("CHECKPOINT_INVALID", `The tensors of the snapshot in ${dir} are damaged.`, { cause });
  }
  return all;
}

export function mismatch(dir: string, what: string): StatesetError {
  return new StatesetError("CHECKPOINT_MISMATCH", `The snapshot in ${dir} is of another model: ${what}.`, {
    hint: "Load the same model with the same adapter options as the run that wrote it.",
  });
}
