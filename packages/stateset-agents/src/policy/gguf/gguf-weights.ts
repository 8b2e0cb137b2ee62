import type { FileHandle } from "node:fs/promises";
import { StatesetError } from "../../error.ts";
import type { Architecture } from "../native/model-config.ts";
import { firstNonFinite } from "../weights/float-formats.ts";
import { invalidModel, quoted } from "../weights/invalid-model.ts";
import type { RawTensor, Weights } from "../weights/open-weights.ts";
import { allocate, chunkBytes, readFully } from "../weights/read-file.ts";
import { dequantise, requireReadable } from "./dequantise.ts";
import { ggmlFormat } from "./ggml-types.ts";
import { type GgufHeader, type GgufTensor, openGgufHeader } from "./gguf-header.ts";
import { MetadataReader } from "./gguf-metadata.ts";
import { huggingFaceName, isConv1d, isPaired, isTable, pairedRow } from "./gguf-names.ts";
import { configFromGguf } from "./model-from-gguf.ts";

/** The tensors of a GGUF file under the names, and in the orientation, that Hugging Face gives them. */
export async function openGgufWeights(file: string): Promise<Weights> {
  const { handle, header } = await openGgufHeader(file);
  try {
    return await describe(handle, header, file);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** config.json of the model in a GGUF file. */
export async function readGgufConfig(file: string): Promise<ReturnType<typeof configFromGguf>> {
  const { handle, header } = await openGgufHeader(file);
  try {
    return await configOf(handle, header, file);
  } finally {
    await handle.close();
  }
}

async function configOf(handle: FileHandle, header: GgufHeader, file: string) {
  const factors = header.tensors.get("rope_freqs.weight");
  // One for every two numbers of a head. It is read before anything is known to fit in memory.
  if (factors && factors.bytes > 2 ** 16)
    throw invalidModel(file, `tensor "rope_freqs.weight" has ${factors.bytes} bytes`);
  return configFromGguf(header, file, factors && (await readFloats(handle, factors, "rope_freqs.weight", file)));
}

async function describe(handle: FileHandle, header: GgufHeader, file: string): Promise<Weights> {
  const config = await configOf(handle, header, file);
  const architecture = config.model_type as Architecture;
  const places = new Map<string, GgufTensor>();
  for (const [name, tensor] of header.tensors) {
    if (isTable(name)) continue;
    const known = huggingFaceName(name, architecture) ?? name;
    if (places.has(known)) throw invalidModel(file, `tensor ${quoted(known)} is there under two names`);
    places.set(known, tensor);
  }
  let open = true;
  const find = (name: string): GgufTensor => {
    if (!open) throw new StatesetError("POLICY_CLOSED", "These weights were closed.");
    const tensor = places.get(name);
    if (!tensor) throw invalidModel(file, `no tensor ${quoted(name)}`);
    return tensor;
  };
  /** Row of the file that holds a row of Hugging Face. */
  const rowOf = (name: string): ((row: number) => number) | undefined => {
    const headDim = config.head_dim as number;
    return isPaired(name, architecture) ? (row) => pairedRow(row, headDim) : undefined;
  };
  const checkHeads = (name: string, { shape }: GgufTensor) => {
    if (
      isPaired(name, architecture) &&
      (shape[0]! % (config.head_dim as number) !== 0 || (config.head_dim as number) % 2)
    ) {
      throw invalidModel(
        file,
        `tensor ${quoted(name)} has ${shape[0]} rows, which are no whole heads of ${config.head_dim}`,
      );
    }
  };
  const meta = new MetadataReader(header.metadata, file);
  const texts = ["general.name", "general.license"].flatMap((key) => {
    const text = meta.text(key);
    return text === undefined ? [] : [[key, text] as const];
  });
  return {
    names: [...places.keys()],
    metadata: Object.fromEntries(texts),
    has: (name) => places.has(name),
    info(name) {
      const { type, shape } = find(name);
      return { dtype: type, shape: isConv1d(name, architecture) ? shape.toReversed() : shape, file };
    },
    async read(name, { allowNonFinite = false } = {}) {
      const tensor = find(name);
      checkHeads(name, tensor);
      const values = await readFloats(handle, tensor, name, file, rowOf(name));
      const bad = allowNonFinite ? -1 : firstNonFinite(values);
      if (bad >= 0) throw invalidModel(file, `tensor ${quoted(name)} holds ${values[bad]} at element ${bad}`);
      return isConv1d(name, architecture) ? transposed(values, tensor.shape) : values;
    },
    async raw(name): Promise<RawTensor> {
      const tensor = find(name);
      checkHeads(name, tensor);
      requireReadable(tensor.type, name, file);
      const bytes = new Uint8Array(tensor.bytes);
      await readFully(handle, bytes, tensor.start, file);
      const { type, shape } = tensor;
      const order = rowOf(name);
      return { type, shape, bytes: order ? reordered(bytes, shape[0]!, order) : bytes };
    },
    async close() {
      if (!open) return;
      open = false;
      await handle.close();
    },
  };
}

/** In parts: beside the result there is never more than one of them. */
async function readFloats(
  handle: FileHandle,
  { type, shape, start, bytes }: GgufTensor,
  name: string,
  file: string,
  order?: (row: number) => number,
): Promise<Float32Array> {
  const readable = requireReadable(type, name, file);
  const format = ggmlFormat(readable);
  const values = allocate((bytes / format.bytes) * format.block, file, `tensor ${quoted(name)}`);
  const part = new Uint8Array(Math.min(bytes, Math.floor(chunkBytes / format.bytes) * format.bytes));
  for (let done = 0; done < bytes; done += part.length) {
    const read = part.subarray(0, Math.min(part.length, bytes - done));
    await readFully(handle, read, start + done, file);
    const [from, to] = [done, done + read.length].map((at) => (at / format.bytes) * format.block) as [number, number];
    dequantise(readable, read, values.subarray(from, to));
  }
  return order ? reordered(values, shape[0]!, order) : values;
}

/** Whole rows in another order; blocks lie along a row, so this holds for bytes as well as for numbers. */
export function reordered<T extends Float32Array | Uint8Array>(
  data: T,
  rows: number,
  order: (row: number) => number,
): T {
  const width = data.length / rows;
  const out = data.slice() as T;
  for (let row = 0; row < rows; row++) {
    const from = order(row) * width;
    out.set(data.subarray(from, from + width), row * width);
  }
  return out;
}

/** [out, in] to [in, out]. */
export function transposed(data: Float32Array, [rows, cols]: readonly number[]): Float32Array {
  const out = new Float32Array(data.length);
  for (let row = 0; row < rows!; row++) {
    for (let col = 0; col < cols!; col++) out[col * rows! + row] = data[row * cols! + col]!;
  }
  return out;
}
