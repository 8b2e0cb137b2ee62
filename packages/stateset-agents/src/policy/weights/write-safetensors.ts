import type { Hash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { StatesetError } from "../../error.ts";
import { f32ToBf16 } from "./float-formats.ts";
import { quoted } from "./invalid-model.ts";
import { dataOf, elementsOf, requireElements, type SizedTensor, writeAtomically, writeFully } from "./write-file.ts";

export interface TensorToWrite extends SizedTensor {
  /** How it is stored. Default "F32". */
  dtype?: "F32" | "BF16";
}

const chunkElements = 4 * 1024 * 1024;

/**
 * Writes a safetensors file so that `file` is either the old one or the complete new one, also when the process dies halfway:
 * a temporary file beside it is written, flushed to the disk and renamed. Tensors are laid out as the reference writer does
 * (wider dtypes first, then by name), so the same tensors give the same bytes whatever order they come in.
 * `hash` gets the file's bytes as they are written. Answers how many there are.
 */
export async function writeSafetensors(
  file: string,
  tensors: readonly TensorToWrite[],
  metadata: Readonly<Record<string, string>> = {},
  hash?: Hash,
): Promise<number> {
  const ordered = [...tensors].sort((a, b) => widthOf(b) - widthOf(a) || byName(a, b));
  const header = buildHeader(ordered, metadata, file);
  await writeAtomically(file, async (handle) => {
    await writeFully(handle, header, hash);
    for (const tensor of ordered) await writeTensor(handle, tensor, hash);
  });
  return ordered.reduce((sum, tensor) => sum + bytesOf(tensor), header.length);
}

export function byName(a: TensorToWrite, b: TensorToWrite): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}

/** Of one number. */
function widthOf({ dtype }: TensorToWrite): number {
  return dtype === "BF16" ? 2 : 4;
}

export function bytesOf(tensor: TensorToWrite): number {
  return elementsOf(tensor) * widthOf(tensor);
}

function buildHeader(
  ordered: readonly TensorToWrite[],
  metadata: Readonly<Record<string, string>>,
  file: string,
): Uint8Array {
  const entries: [string, unknown][] = Object.keys(metadata).length > 0 ? [["__metadata__", metadata]] : [];
  const seen = new Set(["__metadata__"]);
  let offset = 0;
  for (const tensor of ordered) {
    const { name, shape, data, dtype = "F32" } = tensor;
    if (seen.has(name)) throw new StatesetError("INVALID_OPTION", `Tensor ${quoted(name)} is given twice for ${file}.`);
    if (typeof data !== "function") requireElements(tensor, data);
    seen.add(name);
    const end = offset + bytesOf(tensor);
    if (!Number.isSafeInteger(end)) {
      throw new StatesetError(
        "INVALID_OPTION",
        `Tensor ${quoted(name)} of shape [${shape.join(", ")}] is too large for ${file}.`,
      );
    }
    entries.push([name, { dtype, shape, data_offsets: [offset, end] }]);
    offset = end;
  }
  // Not Object.fromEntries: a key such as "1" would move to the front, and "__proto__" would vanish.
  const json = `{${entries.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`).join(",")}}`;
  const text = Buffer.from(json, "utf8");
  // Spaces up to a multiple of 8 keep the data aligned, as the format recommends.
  const header = Buffer.alloc(8 + Math.ceil(text.length / 8) * 8, " ");
  header.writeBigUInt64LE(BigInt(header.length - 8), 0);
  text.copy(header, 8);
  return header;
}

async function writeTensor(handle: FileHandle, tensor: TensorToWrite, hash: Hash | undefined): Promise<void> {
  const { dtype } = tensor;
  const data = await dataOf(tensor);
  if (dtype !== "BF16") {
    await writeFully(handle, new Uint8Array(data.buffer, data.byteOffset, data.byteLength), hash);
    return;
  }
  const chunk = new Uint16Array(Math.min(data.length, chunkElements));
  for (let done = 0; done < data.length; done += chunk.length) {
    const part = data.subarray(done, done + chunk.length);
    f32ToBf16(part, chunk);
    await writeFully(handle, new Uint8Array(chunk.buffer, 0, part.length * 2), hash);
  }
}
