import { basename, dirname } from "node:path";
import { makeFolder } from "../files.ts";
import { type ModelConfig, readModelConfig } from "../native/model-config.ts";
import { type TensorPlace, tensorPlaces } from "../native/tensor-names.ts";
import { checkWeights, findName } from "../native/weights.ts";
import type { WriteProgress } from "../policy.ts";
import type { ModelFiles } from "../tokenizer/model-json.ts";
import { openWeights } from "../weights/index.ts";
import { tokenizerSource } from "./find-gguf.ts";
import { ggmlFormat } from "./ggml-types.ts";
import { ggufFromConfig } from "./gguf-from-config.ts";
import { ggufName, isConv1d, isPaired, unpairedRow } from "./gguf-names.ts";
import { reordered, transposed } from "./gguf-weights.ts";
import { llama3Factors } from "./model-from-gguf.ts";
import type { WritableType } from "./quantise.ts";
import { ggufTokenizer } from "./tokenizer-export.ts";
import { type GgufTensorToWrite, writeGguf } from "./write-gguf.ts";

/** A model with its adapter, if it has one, merged. */
export interface WholeModel {
  config: ModelConfig;
  tokenizer: ModelFiles;
  /** A tensor as Hugging Face stores it. Asked for when its turn comes, so that there is one at a time. */
  read(place: TensorPlace): Promise<Float32Array>;
}

export interface WriteGgufOptions {
  file: string;
  /** Of matrices. Vectors and positions are always F32, as llama.cpp wants them. */
  type: WritableType;
  /** What the file says it is called. */
  name: string;
  onProgress?: ((progress: WriteProgress) => void) | undefined;
}

export interface WrittenGguf {
  /** Matrices of rows that are no whole blocks of the type: they are F16. */
  halved: string[];
}

/** Writes a model as a GGUF file, one tensor after another. */
export async function writeModelAsGguf(
  { config, tokenizer, read }: WholeModel,
  { file, type, name, onProgress }: WriteGgufOptions,
): Promise<WrittenGguf> {
  const metadata = ggufFromConfig(config, name, type);
  for (const [key, value] of await ggufTokenizer(tokenizer, config.engine.vocab, config.json)) metadata.set(key, value);
  const halved: string[] = [];
  const tensors = tensorPlaces(config.architecture, config.engine).map((place): GgufTensorToWrite => {
    const { name, shape } = place;
    const stored = isConv1d(name, config.architecture) ? shape.toReversed() : shape;
    const kept = typeFor(name, stored, type);
    if (kept !== type && kept === "F16") halved.push(name);
    return {
      name: ggufName(name, config.architecture)!,
      shape: stored,
      type: kept,
      data: async () => inFileOrder(await read(place), place, config),
    };
  });
  await makeFolder(dirname(file));
  await writeGguf(file, metadata, [...ropeFactors(config), ...tensors], onProgress);
  return { halved };
}

/** What a file says it is called: its own name. */
export function ggufTitle(file: string): string {
  return basename(file).replace(/\.gguf$/i, "");
}

/** The model of a folder in Hugging Face layout, or of a GGUF file, straight from its files: no engine, and one tensor in memory. */
export async function exportGguf({ dir, ...options }: WriteGgufOptions & { dir: string }): Promise<WrittenGguf> {
  const config = await readModelConfig(dir);
  await checkWeights(dir, config);
  const tokenizer = await tokenizerSource(dir);
  const weights = await openWeights(dir);
  try {
    const read = ({ name }: TensorPlace) => weights.read(findName(name, weights)!);
    return await writeModelAsGguf({ config, tokenizer, read }, options);
  } finally {
    await weights.close();
  }
}

function typeFor(name: string, shape: readonly number[], type: WritableType): WritableType {
  if (shape.length === 1 || name === "transformer.wpe.weight") return "F32";
  return shape[1]! % ggmlFormat(type).block === 0 ? type : "F16";
}

function inFileOrder(
  data: Float32Array,
  { name, shape }: TensorPlace,
  { architecture, engine }: ModelConfig,
): Float32Array {
  if (isConv1d(name, architecture)) return transposed(data, shape);
  return isPaired(name, architecture) ? reordered(data, shape[0]!, (row) => unpairedRow(row, engine.headDim)) : data;
}

function ropeFactors({ engine: { ropeScaling, ropeTheta, headDim } }: ModelConfig): GgufTensorToWrite[] {
  if (ropeScaling?.type !== "llama3") return [];
  const data = llama3Factors(ropeTheta, headDim, {
    factor: ropeScaling.factor,
    low_freq_factor: ropeScaling.lowFrequency,
    high_freq_factor: ropeScaling.highFrequency,
    original_max_position_embeddings: ropeScaling.originalMaxPositions,
  });
  return [{ name: "rope_freqs.weight", shape: [headDim / 2], type: "F32", data }];
}
