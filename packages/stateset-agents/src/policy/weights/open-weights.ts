import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { StatesetError } from "../../error.ts";
import { ggufOfFolder, isGgufFile } from "../gguf/find-gguf.ts";
import type { GgmlType } from "../gguf/ggml-types.ts";
import { openGgufWeights } from "../gguf/gguf-weights.ts";
import { exists, isFolder } from "../what-lies-at.ts";
import { invalidModel, quoted } from "./invalid-model.ts";
import { openSafetensors, type ReadOptions, type SafetensorsFile } from "./safetensors-file.ts";
import type { Dtype } from "./safetensors-header.ts";

export interface WeightInfo {
  dtype: Dtype | GgmlType;
  shape: readonly number[];
  /** The file that holds the tensor. */
  file: string;
}

/** A tensor as its file stores it. */
export interface RawTensor {
  type: GgmlType;
  /** Row-major, [out, in] also where Hugging Face has it the other way round. */
  shape: readonly number[];
  /** Blocks lie along a row; rows are in the order of Hugging Face. */
  bytes: Uint8Array;
}

/** The tensors of a model, in one file or several. */
export interface Weights {
  /** In the order of the files. */
  readonly names: readonly string[];
  /** The free-form metadata of the files, merged. */
  readonly metadata: Readonly<Record<string, string>>;
  has(name: string): boolean;
  info(name: string): WeightInfo;
  /** Converts to 32-bit floats. Each call reads the file anew: nothing is kept. */
  read(name: string, options?: ReadOptions): Promise<Float32Array>;
  /** The bytes as they are. Of GGUF files alone. */
  raw?(name: string): Promise<RawTensor>;
  close(): Promise<void>;
}

/**
 * Opens `model.safetensors`, the shards that `model.safetensors.index.json` lists, or the one .gguf file, in a folder; or one .safetensors or .gguf file by its path.
 * The tensors of a GGUF file have the names of Hugging Face.
 *
 * @example
 * const weights = await openWeights("./my-model");
 * const embedding = await weights.read("model.embed_tokens.weight");
 * await weights.close();
 */
export async function openWeights(path: string): Promise<Weights> {
  if (await isGgufFile(path)) return openGgufWeights(path);
  const single = join(path, "model.safetensors");
  const index = join(path, "model.safetensors.index.json");
  if (path.endsWith(".safetensors") && !(await isFolder(path))) return openFiles(new Map([[path, undefined]]));
  if (await exists(single)) return openFiles(new Map([[single, undefined]]));
  if (await exists(index)) return openFiles(await readIndex(index, path));
  if (!(await isFolder(path))) throw new StatesetError("MODEL_NOT_FOUND", `No model folder at ${path}.`);
  const gguf = await ggufOfFolder(path);
  if (gguf !== undefined) return openGgufWeights(gguf);
  if (await exists(join(path, "pytorch_model.bin"))) {
    throw new StatesetError(
      "MODEL_UNSUPPORTED",
      `${path} holds pytorch_model.bin, a format that can run code when read.`,
      {
        hint: "Convert it: in Python, AutoModelForCausalLM.from_pretrained(path).save_pretrained(path, safe_serialization=True).",
      },
    );
  }
  throw new StatesetError(
    "MODEL_NOT_FOUND",
    `${path} has no model.safetensors, no model.safetensors.index.json and no .gguf file.`,
  );
}

/** The tensors of several .safetensors files, as of one. */
export function openWeightFiles(files: readonly string[]): Promise<Weights> {
  return openFiles(new Map(files.map((file) => [file, undefined])));
}

/** Opens each file and checks that it holds exactly the tensors the index promised (when there is an index). */
async function openFiles(promised: Map<string, Set<string> | undefined>): Promise<Weights> {
  const home = new Map<string, { file: string; source: SafetensorsFile }>();
  const sources: SafetensorsFile[] = [];
  const metadata: Record<string, string> = {};
  const close = async () => {
    await Promise.all(sources.splice(0).map((source) => source.close()));
  };
  try {
    for (const [file, expected] of promised) {
      const source = await openSafetensors(file);
      sources.push(source);
      Object.assign(metadata, source.metadata);
      for (const name of source.tensors.keys()) {
        if (expected && !expected.has(name)) {
          throw invalidModel(file, `holds tensor ${quoted(name)}, which the index does not place there`);
        }
        home.set(name, { file, source });
      }
      const absent = [...(expected ?? [])].find((name) => !source.tensors.has(name));
      if (absent !== undefined)
        throw invalidModel(file, `lacks tensor ${quoted(absent)}, which the index places there`);
    }
  } catch (error) {
    await close();
    throw error;
  }
  const find = (name: string) => {
    if (sources.length === 0) throw new StatesetError("POLICY_CLOSED", "These weights were closed.");
    const found = home.get(name);
    if (!found)
      throw new StatesetError("MODEL_INVALID", `No tensor ${quoted(name)} in ${[...promised.keys()].join(", ")}.`);
    return found;
  };
  return {
    names: [...home.keys()],
    metadata,
    has: (name) => home.has(name),
    info(name) {
      const { file, source } = find(name);
      const { dtype, shape } = source.tensors.get(name)!;
      return { dtype, shape, file };
    },
    read: async (name, options) => find(name).source.read(name, options),
    close,
  };
}

/** Shard → tensors, in the order the index first names the shards. */
async function readIndex(index: string, dir: string): Promise<Map<string, Set<string>>> {
  let json: unknown;
  try {
    json = JSON.parse(await readFile(index, "utf8"));
  } catch (cause) {
    throw invalidModel(index, "it is not JSON", cause);
  }
  const map = (json as { weight_map?: unknown } | null)?.weight_map;
  if (typeof map !== "object" || map === null || Array.isArray(map)) throw invalidModel(index, "it has no weight_map");
  const shards = new Map<string, Set<string>>();
  for (const [name, shard] of Object.entries(map)) {
    // A shard lies beside the index; anything else could read files the user never meant to load.
    if (typeof shard !== "string" || shard !== basename(shard) || !/^[^\\\0]+\.safetensors$/.test(shard)) {
      throw invalidModel(
        index,
        `tensor ${quoted(name)} is placed in ${quoted(String(shard))}, which is no .safetensors file name`,
      );
    }
    const file = join(dir, shard);
    if (!(await exists(file))) {
      throw new StatesetError("MODEL_NOT_FOUND", `${index} names the shard ${shard}, which is missing.`, {
        hint: "The download is incomplete; fetch the model again.",
      });
    }
    const tensors = shards.get(file) ?? new Set();
    shards.set(file, tensors.add(name));
  }
  if (shards.size === 0) throw invalidModel(index, "its weight_map is empty");
  return shards;
}
