import { StatesetError } from "../../error.ts";
import type { WriteProgress } from "../policy.ts";
import { quoted } from "../weights/invalid-model.ts";
import {
  dataOf,
  elementsOf,
  requireElements,
  type SizedTensor,
  writeAtomically,
  writeFully,
} from "../weights/write-file.ts";
import { ggmlFormat } from "./ggml-types.ts";
import { quantise, type WritableType } from "./quantise.ts";

/** A value of metadata. Numbers are written as u32, unless they are said to be fractions. */
export type GgufEntry = string | boolean | number | { f32: number } | readonly string[] | Int32Array | Float32Array;

export interface GgufTensorToWrite extends SizedTensor {
  type: WritableType;
}

const alignment = 32;
const typeIds = { u32: 4, i32: 5, f32: 6, bool: 7, text: 8, list: 9 } as const;

/** Writes a GGUF file of version 3, one tensor after another, so that `file` is either the old one or the complete new one. */
export async function writeGguf(
  file: string,
  metadata: ReadonlyMap<string, GgufEntry>,
  tensors: readonly GgufTensorToWrite[],
  onProgress?: (progress: WriteProgress) => void,
): Promise<void> {
  const header = padded(buildHeader(file, metadata, tensors));
  const total = tensors.reduce((sum, tensor) => sum + bytesOf(tensor), header.length);
  let bytes = 0;
  await writeAtomically(file, async (handle) => {
    const write = async (part: Uint8Array) => {
      await writeFully(handle, part);
      bytes += part.length;
      onProgress?.({ bytes, total });
    };
    await write(header);
    for (const tensor of tensors) {
      const data = await dataOf(tensor);
      await write(padded(quantise(tensor.type, data, tensor.name)));
    }
  });
}

function buildHeader(
  file: string,
  metadata: ReadonlyMap<string, GgufEntry>,
  tensors: readonly GgufTensorToWrite[],
): Uint8Array {
  const parts = [Buffer.from("GGUF"), u32(3), u64(tensors.length), u64(metadata.size)];
  for (const [key, entry] of metadata) parts.push(text(key), ...value(entry));
  let offset = 0;
  const seen = new Set<string>();
  for (const tensor of tensors) {
    const { name, shape, type, data } = tensor;
    const { id, block } = ggmlFormat(type);
    if (seen.has(name)) throw new StatesetError("INVALID_OPTION", `Tensor ${quoted(name)} is given twice for ${file}.`);
    if ((shape.at(-1) ?? 1) % block !== 0) {
      throw new StatesetError("INVALID_OPTION", `The rows of tensor ${quoted(name)} are no whole blocks of ${type}.`);
    }
    if (typeof data !== "function") requireElements(tensor, data);
    seen.add(name);
    const sizes = shape.toReversed().map(u64);
    parts.push(text(name), u32(shape.length), ...sizes, u32(id), u64(offset));
    offset += bytesOf(tensor);
  }
  return Buffer.concat(parts);
}

/** In the file, filled up to where the next may begin. */
function bytesOf(tensor: GgufTensorToWrite): number {
  const { block, bytes } = ggmlFormat(tensor.type);
  return roundedUp((elementsOf(tensor) / block) * bytes);
}

function value(entry: GgufEntry): Buffer[] {
  if (typeof entry === "string") return [u32(typeIds.text), text(entry)];
  if (typeof entry === "boolean") return [u32(typeIds.bool), Buffer.of(entry ? 1 : 0)];
  if (typeof entry === "number") return [u32(typeIds.u32), u32(entry)];
  if ("f32" in entry) return [u32(typeIds.f32), numbers(Float32Array.of(entry.f32))];
  const list = (type: number) => [u32(typeIds.list), u32(type), u64(entry.length)];
  if (entry instanceof Int32Array) return [...list(typeIds.i32), numbers(entry)];
  if (entry instanceof Float32Array) return [...list(typeIds.f32), numbers(entry)];
  return [...list(typeIds.text), ...entry.map(text)];
}

function numbers(list: Float32Array | Int32Array): Buffer {
  return Buffer.from(list.buffer, list.byteOffset, list.byteLength);
}

function text(content: string): Buffer {
  const bytes = Buffer.from(content, "utf8");
  return Buffer.concat([u64(bytes.length), bytes]);
}

function u32(number: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(number);
  return bytes;
}

function u64(number: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(number));
  return bytes;
}

function roundedUp(bytes: number): number {
  return Math.ceil(bytes / alignment) * alignment;
}

function padded(bytes: Uint8Array): Uint8Array {
  const length = roundedUp(bytes.length);
  return length === bytes.length ? bytes : Buffer.concat([bytes], length);
}
