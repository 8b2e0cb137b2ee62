import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { RetainedTraining } from "@stateset-agents/engine";
import { z } from "zod";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { makeFolder } from "../files.ts";
import { loraSchema } from "../option-schemas.ts";
import type { LoraOptions, Version } from "../policy.ts";
import { type StoredFile, storeJson } from "../stored-file.ts";
import { readJsonObject } from "../tokenizer/model-json.ts";
import { isShardOf, type TensorToWrite, writeShards } from "../weights/index.ts";
import { exists } from "../what-lies-at.ts";
import type { TrainingPrecision } from "./precision.ts";
import { insertPart, isDirect, type TensorPlace } from "./tensor-names.ts";
import { sizeOf, wholeTensor } from "./weights.ts";

/**
 * A snapshot is what training needs to go on, for every engine: the trained tensors under the names of Hugging Face and PEFT, and
 * AdamW's moments beside each (`NAME:m`, `NAME:v`), in shards, all f32 but moments that are kept as bf16; and a small file that says what they are and makes them valid.
 * Format 2, which is still read, had the names of the embedded engine and one file.
 */
export interface SnapshotState {
  format: 2 | 3;
  architecture: string;
  /** Of every trained tensor: what the snapshot fits. */
  shapes: Record<string, readonly number[]>;
  lora: LoraOptions | null;
  valueHead: boolean;
  /** Optimiser steps of the policy and of the value head. */
  steps: [number, number];
  /** How many forward passes drew a dropout mask. */
  dropoutPasses: number;
  /** The name of the weights, so that a run that is resumed goes on with the names it had. */
  version: Version;
  files: readonly (Pick<StoredFile, "file"> & Partial<StoredFile>)[];
}

/** Written last; tells a snapshot from other folders. */
export const snapshotFile = "policy.json";
const stem = "policy";
const oneFile = "policy.safetensors";
const formats = { 2: "stateset-agents policy snapshot 2", 3: "stateset-agents policy snapshot 3" } as const;

const common = {
  architecture: z.string(),
  lora: loraSchema.nullable(),
  valueHead: z.boolean(),
  steps: z.tuple([z.int().min(0), z.int().min(0)]),
  dropoutPasses: z.int().min(0),
  version: z.string(),
};

/** What shards a small file lists: names in its own folder, and nothing else. */
export const shardsSchema = (stem: string) =>
  z.array(
    z.strictObject({
      file: z.string().refine((file) => isShardOf(stem, file), "not the name of a shard"),
      bytes: z.int().min(0),
      sha256: z.string().regex(/^[0-9a-f]{64}$/, "not a hash"),
    }),
  );

const stateSchema = z.discriminatedUnion("format", [
  z.strictObject({
    format: z.literal(formats[2]),
    ...common,
    shapes: z.record(z.string(), z.tuple([z.int(), z.int()])),
  }),
  z.strictObject({
    format: z.literal(formats[3]),
    /** Which engine wrote it, for whoever reads the file. */
    engine: z.string(),
    ...common,
    shapes: z.record(z.string(), z.array(z.int().min(0)).min(1)),
    shards: shardsSchema(stem).min(1),
  }),
]);

/** What the small file says beside what the tensors themselves tell. */
type WrittenState = Pick<SnapshotState, "architecture" | "lora" | "dropoutPasses" | "version">;

/** Writes what is trained with its moments; the small file comes last and makes the snapshot valid. */
export async function writeSnapshot(
  dir: string,
  trained: RetainedTraining,
  places: readonly TensorPlace[],
  { architecture, lora, moments, dropoutPasses, version }: WrittenState & { moments: TrainingPrecision },
  mostBytes?: number,
): Promise<StoredFile[]> {
  // Both moments come in one reading and are written one after the other.
  let last: { place: TensorPlace; moments: Promise<[Float32Array, Float32Array]> } | undefined;
  const momentsOf = (place: TensorPlace) => {
    if (last?.place !== place) last = { place, moments: wholeMoments(place, trained.readMoments) };
    return last.moments;
  };
  // Numbers of two bytes are what they were in a file of such.
  const dtype = moments === "bf16" ? "BF16" : "F32";
  const tensors = places.flatMap((place): TensorToWrite[] => {
    const { name, shape } = place;
    return [
      { name, shape, data: () => wholeTensor(place, trained.readTensor) },
      { name: `${name}:m`, shape, dtype, data: async () => (await momentsOf(place))[0] },
      { name: `${name}:v`, shape, dtype, data: async () => (await momentsOf(place))[1] },
    ];
  });
  await makeFolder(dir);
  const shards = await writeShards(dir, stem, tensors, mostBytes);
  const state = storeJson(dir, snapshotFile, {
    format: formats[3],
    engine: "native",
    architecture,
    lora,
    valueHead: places.some(({ name }) => kindOf(name) === "value"),
    steps: trained.steps,
    dropoutPasses,
    version,
    shapes: Object.fromEntries(places.map(({ name, shape }) => [name, shape])),
    shards,
  });
  await removeOthers(dir, new Set(shards.map(({ file }) => file)));
  return [...shards, state];
}

async function wholeMoments(
  place: TensorPlace,
  read: RetainedTraining["readMoments"],
): Promise<[Float32Array, Float32Array]> {
  if (isDirect(place)) return read(place.parts[0]!.engine);
  const whole: [Float32Array, Float32Array] = [new Float32Array(sizeOf(place)), new Float32Array(sizeOf(place))];
  for (const part of place.parts) {
    const [m, v] = await read(part.engine);
    insertPart(place, part, m, whole[0]);
    insertPart(place, part, v, whole[1]);
  }
  return whole;
}

/** What an earlier snapshot in the same folder left: its tensors are no part of this one. */
async function removeOthers(dir: string, own: ReadonlySet<string>): Promise<void> {
  for (const file of await readdir(dir)) {
    if (file === oneFile || (isShardOf(stem, file) && !own.has(file))) await rm(join(dir, file));
  }
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
  const state = parseOptions(stateSchema, json, join(dir, snapshotFile), "CHECKPOINT_INVALID");
  if (state.format === formats[2]) return { ...state, format: 2, files: [{ file: oneFile }] };
  const { engine: _, shards, ...rest } = state;
  return { ...rest, format: 3, files: shards };
}

export type TensorKind = "base" | "adapter" | "value";

/** By its name in the engine or in a file. */
export function kindOf(name: string): TensorKind {
  if (name.startsWith("value.")) return "value";
  return /\.lora_([ab]|[AB]\.weight)$/.test(name) ? "adapter" : "base";
}

export function mismatch(dir: string, what: string): StatesetError {
  return new StatesetError("CHECKPOINT_MISMATCH", `The snapshot in ${dir} is of another model: ${what}.`, {
    hint: "Load the same model with the same adapter options as the run that wrote it.",
  });
}
