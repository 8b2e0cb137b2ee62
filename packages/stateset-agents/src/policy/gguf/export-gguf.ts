import { readModelConfig } from "../native/model-config.ts";
import { tensorPlaces } from "../native/tensor-names.ts";
import { checkWeights } from "../native/weights.ts";
import { openWeights, type Weights } from "../weights/index.ts";
import { ggmlFormat } from "./ggml-types.ts";
import { ggufFromConfig } from "./gguf-from-config.ts";
import { ggufName, isConv1d, isPaired, unpairedRow } from "./gguf-names.ts";
import { reordered, transposed } from "./gguf-weights.ts";
import { llama3Factors } from "./model-from-gguf.ts";
import type { WritableType } from "./quantise.ts";
import { ggufTokenizer } from "./tokenizer-export.ts";
import { type GgufTensorToWrite, writeGguf } from "./write-gguf.ts";

export interface ExportGgufOptions {
  /** A model in Hugging Face layout, adapters merged. */
  dir: string;
  file: string;
  /** Of matrices. Vectors and positions are always F32, as llama.cpp wants them. */
  type: WritableType;
  /** What the file says it is called. */
  name: string;
}

/** Writes a model as a GGUF file, one tensor after another. `halved` are matrices of rows that are no whole blocks of the type: they are F16. */
export async function exportGguf({ dir, file, type, name }: ExportGgufOptions): Promise<{ halved: string[] }> {
  const config = await readModelConfig(dir);
  await checkWeights(dir, config);
  const metadata = ggufFromConfig(config, name, type);
  for (const [key, value] of await ggufTokenizer(dir, config.engine.vocab)) metadata.set(key, value);
  const weights = await openWeights(dir);
  try {
    const halved: string[] = [];
    const tensors = tensorPlaces(config.architecture, config.engine).map((place): GgufTensorToWrite => {
      const { name, shape } = place;
      const conv1d = isConv1d(name, config.architecture);
      const stored = conv1d ? shape.toReversed() : shape;
      const kept = typeFor(name, stored, type);
      if (kept !== type && kept === "F16") halved.push(name);
      return {
        name: ggufName(name, config.architecture)!,
        shape: stored,
        type: kept,
        data: () => inFileOrder(weights, name, config),
      };
    });
    await writeGguf(file, metadata, [...ropeFactors(config), ...tensors]);
    return { halved };
  } finally {
    await weights.close();
  }
}

function typeFor(name: string, shape: readonly number[], type: WritableType): WritableType {
  if (shape.length === 1 || name === "transformer.wpe.weight") return "F32";
  return shape[1]! % ggmlFormat(type).block === 0 ? type : "F16";
}

type Config = Awaited<ReturnType<typeof readModelConfig>>;

async function inFileOrder(weights: Weights, name: string, { architecture, engine }: Config): Promise<Float32Array> {
  const known = weights.has(name) ? name : name.replace(/^(model|transformer)\./, "");
  const data = await weights.read(known);
  const { shape } = weights.info(known);
  if (isConv1d(name, architecture)) return transposed(data, shape);
  return isPaired(name, architecture) ? reordered(data, shape[0]!, (row) => unpairedRow(row, engine.headDim)) : data;
}

function ropeFactors({ engine: { ropeScaling, ropeTheta, headDim } }: Config): GgufTensorToWrite[] {
  if (ropeScaling?.type !== "llama3") return [];
  const data = llama3Factors(ropeTheta, headDim, {
    factor: ropeScaling.factor,
    low_freq_factor: ropeScaling.lowFrequency,
    high_freq_factor: ropeScaling.highFrequency,
    original_max_position_embeddings: ropeScaling.originalMaxPositions,
  });
  return [{ name: "rope_freqs.weight", shape: [headDim / 2], type: "F32", data }];
}
