import { join } from "node:path";
import { writeJsonAtomic } from "../../durable.ts";
import { StatesetError } from "../../error.ts";
import { copyTokenizer, makeFolder } from "../files.ts";
import { isGgufName } from "../gguf/find-gguf.ts";
import type { ModelFiles } from "../tokenizer/model-json.ts";
import { openWeights, type TensorToWrite, type Weights, writeSafetensors } from "../weights/index.ts";
import { exists } from "../what-lies-at.ts";
import type { ModelConfig } from "./model-config.ts";
import { isBlocks, type StoredTypes, type WeightForms } from "./precision.ts";
import { extractPart, insertPart, isComputed, isDirect, type TensorPlace, tensorPlaces } from "./tensor-names.ts";

/** Throws when the weights of a folder do not fit its config.json; else what they are stored as. Reads headers alone. */
export async function checkWeights(dir: string, config: ModelConfig): Promise<StoredTypes> {
  const { weights, found } = await openChecked(dir, config);
  const stored = new Map([...found].map(([place, name]) => [place, weights.info(name).dtype]));
  await weights.close();
  return stored;
}

/** Where tensors go: a load of the engine. */
export interface TensorTarget {
  setTensor(name: string, data: Float32Array | Uint8Array): Promise<unknown>;
}

/** Numbers that the memory for one tensor after the other has; larger ones get their own. */
const mostShared = 1 << 24;

export function sizeOf({ shape }: TensorPlace): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** Puts the weights of a Hugging Face folder into a load, one tensor at a time; those that are kept as the file's blocks as bytes. */
export async function loadWeights(
  dir: string,
  config: ModelConfig,
  target: TensorTarget,
  forms: WeightForms,
): Promise<void> {
  const { weights, found } = await openChecked(dir, config);
  // One memory for all of them, since the engine copies what it is given: an array for each tensor would have the garbage
  // collector stop the streams of a server that changes its weights.
  const into = new Float32Array(Math.min(mostShared, Math.max(...[...found.keys()].map(sizeOf))));
  try {
    for (const [place, name] of found) {
      const form = forms[place.parts[0]!.engine];
      if (isBlocks(form) && weights.info(name).dtype.toLowerCase() === form) {
        const { bytes, shape } = await weights.raw!(name);
        const row = bytes.length / shape[0]!;
        for (const { engine, from, rows } of place.parts) {
          await target.setTensor(engine, bytes.subarray(from * row, (from + rows) * row));
        }
        continue;
      }
      const data = await weights.read(name, { into });
      for (const part of place.parts) await target.setTensor(part.engine, extractPart(place, part, data));
    }
  } finally {
    await weights.close();
  }
}

async function openChecked(
  dir: string,
  { architecture, engine }: ModelConfig,
): Promise<{ weights: Weights; found: ReadonlyMap<TensorPlace, string> }> {
  const weights = await openWeights(dir);
  try {
    const places = tensorPlaces(architecture, engine);
    const found = new Map(places.map((place) => [place, findName(place.name, weights)]));
    checkNames(dir, weights, found, (name) => isComputed(name, engine));
    for (const [place, name] of found) checkShape(dir, weights, place, name!);
    return { weights, found: found as Map<TensorPlace, string> };
  } catch (error) {
    await weights.close();
    throw error;
  }
}

/** A file saved from the bare transformer lacks the prefix that the model with a head has. */
export function findName(name: string, weights: Weights): string | undefined {
  return [name, name.replace(/^(model|transformer)\./, "")].find((candidate) => weights.has(candidate));
}

function checkNames(
  dir: string,
  weights: Weights,
  found: ReadonlyMap<TensorPlace, string | undefined>,
  computed: (name: string) => boolean,
): void {
  const missing = [...found].filter(([, name]) => name === undefined).map(([place]) => place.name);
  if (missing.length > 0) {
    throw new StatesetError("MODEL_INVALID", `The weights in ${dir} lack ${listed(missing)}.`, {
      hint: isGgufName(dir)
        ? "The file is incomplete or wrongly converted: download or convert the model again."
        : "The files are incomplete, or config.json belongs to another model.",
    });
  }
  const known = new Set(found.values());
  const surplus = weights.names.filter((name) => !known.has(name) && !computed(name));
  if (surplus.length > 0) {
    throw new StatesetError(
      "MODEL_INVALID",
      `The weights in ${dir} hold ${listed(surplus)}, which ${sizesOf(dir)} no place for.`,
      {
        hint: isGgufName(dir)
          ? "The model has parts that are not supported: choose another one."
          : "config.json belongs to another model, or has another number of layers.",
      },
    );
  }
}

function checkShape(dir: string, weights: Weights, place: TensorPlace, name: string): void {
  const { shape } = weights.info(name);
  if (shape.length === place.shape.length && shape.every((size, i) => size === place.shape[i])) return;
  const vocabulary = /(embed_tokens|wte|lm_head)\.weight$/.test(place.name) && shape[1] === place.shape[1];
  throw new StatesetError(
    "MODEL_INVALID",
    `${name} in ${dir} has the shape [${shape.join(", ")}]; ${sizesOf(dir)} [${place.shape.join(", ")}] for it.`,
    {
      hint: isGgufName(dir)
        ? "The file is wrongly converted: download or convert the model again."
        : vocabulary
          ? `The weights have ${shape[0]} tokens and vocab_size is ${place.shape[0]}: one of them is of another model.`
          : "config.json and the weights do not belong together.",
    },
  );
}

/** What says how large a model's tensors are. */
function sizesOf(dir: string): string {
  return isGgufName(dir) ? "its metadata has" : "config.json has";
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, 4).join(", ");
  return names.length > 4 ? `${shown} and ${names.length - 4} more tensors` : shown;
}

export type ReadTensor = (name: string) => Promise<Float32Array>;

/** Changes a matrix (rows × cols, of the engine) before it is written, for merging adapters. */
export type Adjust = (engineName: string, data: Float32Array) => Promise<void>;

/** A tensor of Hugging Face, put together of those of the engine. */
export async function wholeTensor(place: TensorPlace, read: ReadTensor, adjust?: Adjust): Promise<Float32Array> {
  const direct = isDirect(place);
  const whole = new Float32Array(direct ? 0 : sizeOf(place));
  for (const part of place.parts) {
    const data = await read(part.engine);
    await adjust?.(part.engine, data);
    if (direct) return data;
    insertPart(place, part, data, whole);
  }
  return whole;
}

/** Writes the model in Hugging Face layout: config.json, model.safetensors and the tokenizer of where it came from. */
export async function saveWeights(
  dir: string,
  tokenizer: ModelFiles,
  { architecture, engine: config, json }: ModelConfig,
  read: ReadTensor,
  adjust: Adjust,
  dtype: "f32" | "bf16" = "f32",
): Promise<void> {
  const tensors = tensorPlaces(architecture, config).map(
    (place): TensorToWrite => ({
      name: place.name,
      shape: place.shape,
      dtype: dtype === "bf16" ? "BF16" : "F32",
      data: () => wholeTensor(place, read, adjust),
    }),
  );
  await makeFolder(dir);
  // What may fail first: a tokenizer beside the weights that were there before could be of another model.
  await writeSafetensors(join(dir, "model.safetensors"), tensors, { format: "pt" });
  await copyTokenizer(tokenizer, dir);
  // The weights are stored so now, whatever they were; the key is called dtype since transformers 5.
  const { torch_dtype: _, dtype: __, ...rest } = json;
  const stored = dtype === "bf16" ? "bfloat16" : "float32";
  writeJsonAtomic(join(dir, "config.json"), {
    ...rest,
    ...(json.dtype === undefined ? { torch_dtype: stored } : { dtype: stored }),
  });
}

const valueHeadFile = "value_head.safetensors";

export async function saveValueHead(dir: string, hidden: number, read: ReadTensor): Promise<void> {
  const weight = await read("value.weight");
  const bias = await read("value.bias");
  await writeSafetensors(join(dir, valueHeadFile), [
    { name: "value.weight", shape: [1, hidden], data: weight },
    { name: "value.bias", shape: [1], data: bias },
  ]);
}

export function hasValueHead(dir: string): Promise<boolean> {
  return exists(join(dir, valueHeadFile));
}

/** Puts the value head of a folder into a load; the engine must have one. */
export async function loadValueHead(dir: string, hidden: number, target: TensorTarget): Promise<void> {
  const file = join(dir, valueHeadFile);
  const weights = await openWeights(file);
  try {
    for (const [name, size] of [
      ["value.weight", hidden],
      ["value.bias", 1],
    ] as const) {
      const data = weights.has(name) ? await weights.read(name) : new Float32Array(0);
      if (data.length !== size) {
        throw new StatesetError(
          "MODEL_INVALID",
          `${file} must hold ${name} with ${size} numbers; it has ${data.length}.`,
        );
      }
      await target.setTensor(name, data);
    }
  } finally {
    await weights.close();
  }
}
