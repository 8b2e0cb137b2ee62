import { join } from "node:path";
import type { RetainedWeights } from "@stateset-agents/engine";
import { z } from "zod";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { makeFolder } from "../files.ts";
import type { Version } from "../policy.ts";
import { type StoredFile, storeJson } from "../stored-file.ts";
import { readJsonObject } from "../tokenizer/model-json.ts";
import { type TensorToWrite, type Weights, writeShards } from "../weights/index.ts";
import { kindOf, type SnapshotState, shardsSchema, type TensorKind } from "./snapshot.ts";
import { oldPlacesOf, openStored, placesOf, type TensorsOf } from "./snapshot-tensors.ts";
import { extractPart, type TensorPlace } from "./tensor-names.ts";
import { type TensorTarget, wholeTensor } from "./weights.ts";

/**
 * Where a reference's weights are to be found again: the model without its adapter, the files the policy was opened from, or nowhere
 * but in a file of its own.
 */
const sources = ["base", "opened", "own"] as const;

export interface SavedReference {
  source: (typeof sources)[number];
  version: Version;
}

/** What was read of one. */
export interface StoredReference extends SavedReference {
  /** Which engine wrote it: another one gives the same weights another name. */
  engine: string;
  /** 1: its tensors have the names of the embedded engine. */
  format: 1 | 2;
  files: SnapshotState["files"];
}

export const referenceFile = "reference.json";
const stem = "reference";
const oneFile = "reference.safetensors";
const common = { source: z.enum(sources), version: z.string() };
const schema = z.discriminatedUnion("format", [
  z.strictObject({ format: z.literal(1), ...common }),
  z.strictObject({ format: z.literal(2), engine: z.string(), ...common, shards: shardsSchema(stem) }),
]);

const damaged = (dir: string) => (cause: unknown) => {
  throw new StatesetError("CHECKPOINT_INVALID", `The reference in ${dir} cannot be read.`, { cause });
};

export async function readReference(dir: string): Promise<StoredReference> {
  const json = await readJsonObject(dir, referenceFile).catch(damaged(dir));
  const saved = parseOptions(schema, json, join(dir, referenceFile), "CHECKPOINT_INVALID");
  if (saved.format === 1) return { ...saved, engine: "native", files: [{ file: oneFile }] };
  const { shards, ...rest } = saved;
  return { ...rest, files: shards };
}

/** `own`: what no other file has. The small file comes last and makes the reference valid. */
export async function writeReference(
  dir: string,
  { source, version }: SavedReference,
  own: { weights: Pick<RetainedWeights, "readTensor">; places: readonly TensorPlace[] } | undefined,
): Promise<StoredFile[]> {
  await makeFolder(dir);
  const tensors = (own?.places ?? []).map(
    (place): TensorToWrite => ({
      ...{ name: place.name, shape: place.shape },
      data: () => wholeTensor(place, own!.weights.readTensor),
    }),
  );
  const shards = await writeShards(dir, stem, tensors);
  return [...shards, storeJson(dir, referenceFile, { format: 2, engine: "native", source, version, shards })];
}

/** What writeReference() wrote as a reference's own. */
export interface ReferenceTensors {
  /** Whether all weights are its own, or those of the adapter alone. */
  holds: "weights" | "adapter";
  into(target: TensorTarget): Promise<void>;
  close(): Promise<void>;
}

/** Refuses what does not fit a model with these tensors, before anything is read. */
export async function openReferenceTensors(
  dir: string,
  { format, files }: StoredReference,
  of: TensorsOf,
): Promise<ReferenceTensors> {
  const stored = await openStored(dir, files).catch(damaged(dir));
  try {
    const holds = stored.names.some((name) => kindOf(name) === "base") ? "weights" : "adapter";
    const places = (format === 1 ? oldPlacesOf : placesOf)(of, ownKinds(holds));
    checkFit(dir, stored, places);
    return {
      holds,
      async into(target) {
        for (const place of places) {
          const data = await stored.read(place.name).catch(damaged(dir));
          for (const part of place.parts) await target.setTensor(part.engine, extractPart(place, part, data));
        }
      },
      close: () => stored.close(),
    };
  } catch (error) {
    await stored.close();
    throw error;
  }
}

/** Of a reference that has all weights, or an adapter, of its own. Nobody asks one for values. */
export function ownKinds(holds: ReferenceTensors["holds"]): TensorKind[] {
  return holds === "weights" ? ["base", "adapter"] : ["adapter"];
}

function checkFit(dir: string, stored: Weights, places: readonly TensorPlace[]): void {
  const mismatch = (what: string) => {
    throw new StatesetError("CHECKPOINT_MISMATCH", `The reference in ${dir} is of another model: ${what}.`, {
      hint: "Open the same model, with the same adapter options, as the policy that the reference was made by.",
    });
  };
  for (const { name, shape: here } of places) {
    if (!stored.has(name)) mismatch(`no ${name}`);
    const { shape } = stored.info(name);
    if (shape.join() !== here.join()) mismatch(`${name} is [${shape.join(", ")}], here [${here.join(", ")}]`);
  }
  const known = new Set(places.map(({ name }) => name));
  const foreign = stored.names.find((name) => !known.has(name));
  if (foreign !== undefined) mismatch(`it has ${foreign}`);
}
