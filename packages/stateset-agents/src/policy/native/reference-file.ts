import { join } from "node:path";
import type { RetainedWeights, TensorSpec } from "@stateset-agents/engine";
import { z } from "zod";
import { writeJsonAtomic } from "../../durable.ts";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { makeFolder } from "../files.ts";
import type { Version } from "../policy.ts";
import { readJsonObject } from "../tokenizer/model-json.ts";
import { openWeights, type TensorToWrite, type Weights, writeSafetensors } from "../weights/index.ts";
import { kindOf } from "./snapshot.ts";
import type { TensorTarget } from "./weights.ts";

/**
 * Where a reference's weights are to be found again: the model without its adapter, the files the policy was opened from, or nowhere
 * but in a file of its own.
 */
const sources = ["base", "opened", "own"] as const;

export interface SavedReference {
  source: (typeof sources)[number];
  version: Version;
}

export const referenceFile = "reference.json";
const tensorFile = "reference.safetensors";
const schema = z.strictObject({ format: z.literal(1), source: z.enum(sources), version: z.string() });

const damaged = (dir: string) => (cause: unknown) => {
  throw new StatesetError("CHECKPOINT_INVALID", `The reference in ${dir} cannot be read.`, { cause });
};

export async function readReference(dir: string): Promise<SavedReference> {
  const json = await readJsonObject(dir, referenceFile).catch(damaged(dir));
  const { source, version } = parseOptions(schema, json, join(dir, referenceFile), "CHECKPOINT_INVALID");
  return { source, version };
}

/** `own`: what no other file has. The small file comes last and makes the reference valid. */
export async function writeReference(
  dir: string,
  { source, version }: SavedReference,
  own: { weights: Pick<RetainedWeights, "readTensor">; specs: readonly TensorSpec[] } | undefined,
): Promise<void> {
  await makeFolder(dir);
  if (own) {
    const tensors = own.specs.map(
      ({ name, rows, cols }): TensorToWrite => ({
        ...{ name, shape: [rows, cols] },
        data: () => own.weights.readTensor(name),
      }),
    );
    await writeSafetensors(join(dir, tensorFile), tensors);
  }
  writeJsonAtomic(join(dir, referenceFile), { format: 1, source, version });
}

/** What writeReference() wrote as a reference's own. */
export interface ReferenceTensors {
  /** Whether all weights are its own, or those of the adapter alone. */
  holds: "weights" | "adapter";
  into(target: TensorTarget): Promise<void>;
  close(): Promise<void>;
}

/** Refuses what does not fit a model with these tensors, before anything is read. */
export async function openReferenceTensors(dir: string, specs: readonly TensorSpec[]): Promise<ReferenceTensors> {
  const stored = await openWeights(join(dir, tensorFile)).catch(damaged(dir));
  try {
    const holds = stored.names.some((name) => kindOf(name) === "base") ? "weights" : "adapter";
    const wanted = ownTensors(specs, holds);
    checkFit(dir, stored, wanted);
    return {
      holds,
      async into(target) {
        for (const { name } of wanted) await target.setTensor(name, await stored.read(name).catch(damaged(dir)));
      },
      close: () => stored.close(),
    };
  } catch (error) {
    await stored.close();
    throw error;
  }
}

/** The tensors of a reference that has all weights, or an adapter, of its own. Nobody asks one for values. */
export function ownTensors(specs: readonly TensorSpec[], holds: ReferenceTensors["holds"]): TensorSpec[] {
  return specs.filter(({ name }) => {
    const kind = kindOf(name);
    return kind === "adapter" || (kind === "base" && holds === "weights");
  });
}

function checkFit(dir: string, stored: Weights, wanted: readonly TensorSpec[]): void {
  const mismatch = (what: string) => {
    throw new StatesetError("CHECKPOINT_MISMATCH", `The reference in ${dir} is of another model: ${what}.`, {
      hint: "Open the same model, with the same adapter options, as the policy that the reference was made by.",
    });
  };
  for (const { name, rows, cols } of wanted) {
    if (!stored.has(name)) mismatch(`no ${name}`);
    const { shape } = stored.info(name);
    if (shape[0] !== rows || shape[1] !== cols) mismatch(`${name} is [${shape.join(", ")}], here [${rows}, ${cols}]`);
  }
  const known = new Set(wanted.map(({ name }) => name));
  const foreign = stored.names.find((name) => !known.has(name));
  if (foreign !== undefined) mismatch(`it has ${foreign}`);
}
