import { randomBytes } from "node:crypto";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { syncFolder } from "../../durable.ts";
import { messageOf, StatesetError } from "../../error.ts";
import { f32ToBf16 } from "./float-formats.ts";
import { quoted } from "./safetensors-header.ts";

export interface TensorToWrite {
  name: string;
  shape: readonly number[];
  /** A function is asked when its turn comes, and what it gave is let go before the next: a model is never in memory twice. */
  data: Float32Array | (() => Promise<Float32Array>);
  /** How it is stored. Default "F32". */
  dtype?: "F32" | "BF16";
}

const chunkElements = 4 * 1024 * 1024;

/**
 * Writes a safetensors file so that `file` is either the old one or the complete new one, also when the process dies halfway:
 * a temporary file beside it is written, flushed to the disk and renamed. Tensors are laid out as the reference writer does
 * (wider dtypes first, then by name), so the same tensors give the same bytes whatever order they come in.
 */
export async function writeSafetensors(
  file: string,
  tensors: readonly TensorToWrite[],
  metadata: Readonly<Record<string, string>> = {},
): Promise<void> {
  const ordered = [...tensors].sort(
    (a, b) => bytesOf(b) - bytesOf(a) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0),
  );
  const header = buildHeader(ordered, metadata, file);
  await writeAtomically(file, async (handle) => {
    await writeFully(handle, header);
    for (const tensor of ordered) await writeTensor(handle, tensor);
  });
}

function bytesOf(tensor: TensorToWrite): number {
  return tensor.dtype === "BF16" ? 2 : 4;
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
    const elements = elementsOf(tensor);
    if (seen.has(name)) throw new StatesetError("INVALID_OPTION", `Tensor ${quoted(name)} is given twice for ${file}.`);
    if (typeof data !== "function") requireElements(tensor, data);
    seen.add(name);
    const end = offset + elements * bytesOf(tensor);
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

function elementsOf({ shape }: TensorToWrite): number {
  return shape.reduce((product, size) => product * size, 1);
}

function requireElements(tensor: TensorToWrite, { length }: Float32Array): void {
  if (elementsOf(tensor) === length) return;
  throw new StatesetError(
    "INVALID_OPTION",
    `Tensor ${quoted(tensor.name)} of shape [${tensor.shape.join(", ")}] needs ${elementsOf(tensor)} numbers and has ${length}.`,
  );
}

async function writeTensor(handle: FileHandle, tensor: TensorToWrite): Promise<void> {
  const { dtype } = tensor;
  const data = typeof tensor.data === "function" ? await read(tensor, tensor.data) : tensor.data;
  if (dtype !== "BF16") {
    await writeFully(handle, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    return;
  }
  const chunk = new Uint16Array(Math.min(data.length, chunkElements));
  for (let done = 0; done < data.length; done += chunk.length) {
    const part = data.subarray(done, done + chunk.length);
    f32ToBf16(part, chunk);
    await writeFully(handle, new Uint8Array(chunk.buffer, 0, part.length * 2));
  }
}

/** Where a tensor comes from may fail too, which is no fault of the disk. */
class ReadFailure extends Error {}

async function read(tensor: TensorToWrite, from: () => Promise<Float32Array>): Promise<Float32Array> {
  try {
    const data = await from();
    requireElements(tensor, data);
    return data;
  } catch (cause) {
    throw new ReadFailure("", { cause });
  }
}

async function writeFully(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    // At most 64 MiB at once: a single write may not exceed 2 GiB.
    const { bytesWritten } = await handle.write(bytes, done, Math.min(bytes.length - done, 64 * 1024 * 1024));
    done += bytesWritten;
  }
}

async function writeAtomically(file: string, fill: (handle: FileHandle) => Promise<void>): Promise<void> {
  const temporary = `${file}.${process.pid}-${randomBytes(4).toString("hex")}.tmp`;
  try {
    const handle = await open(temporary, "wx");
    try {
      await fill(handle);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, file);
    syncFolder(dirname(file));
  } catch (cause) {
    await rm(temporary, { force: true });
    if (cause instanceof ReadFailure) throw cause.cause;
    throw new StatesetError("WRITE_FAILED", `${file} could not be written: ${messageOf(cause)}.`, {
      hint: "What was there before is untouched. Check the folder, its permissions and the free space.",
      cause,
    });
  }
}
