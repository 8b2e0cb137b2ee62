import { type FileHandle, open, stat } from "node:fs/promises";
import { StatesetError } from "../../error.ts";
import { bf16ToF32, f16ToF32, firstNonFinite } from "./float-formats.ts";
import { invalidModel, maxHeaderBytes, parseHeader, quoted, type SafetensorsHeader } from "./safetensors-header.ts";

/** Read at once: bounds the memory beside the result, and stays under the 2 GiB a single read may take. */
const chunkBytes = 8 * 1024 * 1024;

export interface ReadOptions {
  /** Accept NaN and infinities. Default false: they are an error that names the tensor. */
  allowNonFinite?: boolean;
}

/** One open safetensors file. Only the header has been read; tensors are read when asked for. */
export interface SafetensorsFile extends SafetensorsHeader {
  read(name: string, options?: ReadOptions): Promise<Float32Array>;
  close(): Promise<void>;
}

export async function openSafetensors(file: string): Promise<SafetensorsFile> {
  // Opening a pipe or a device could wait forever, so look before opening.
  const stats = await stat(file).catch((cause: unknown) => {
    throw new StatesetError("MODEL_NOT_FOUND", `No weight file at ${file}.`, { cause });
  });
  if (!stats.isFile()) throw new StatesetError("MODEL_NOT_FOUND", `${file} is not a file.`);
  const handle = await open(file, "r").catch((cause: unknown) => {
    throw new StatesetError("MODEL_NOT_FOUND", `${file} cannot be opened for reading.`, { cause });
  });
  try {
    return await readHeader(handle, stats.size, file);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

async function readHeader(handle: FileHandle, size: number, file: string): Promise<SafetensorsFile> {
  if (size < 8) throw invalidModel(file, `only ${size} bytes long`);
  const prefix = Buffer.alloc(8);
  await readFully(handle, prefix, 0, file);
  if (prefix.toString("latin1") === "version ") {
    throw new StatesetError("MODEL_INVALID", `${file} is a Git LFS pointer, not the weights themselves.`, {
      hint: "Run `git lfs pull` in that folder, or load the model by its hub id.",
    });
  }
  const headerBytes = prefix.readBigUInt64LE(0);
  if (headerBytes > BigInt(Math.min(size - 8, maxHeaderBytes))) {
    throw invalidModel(file, `the header claims ${headerBytes} bytes, the file has ${size}`);
  }
  const header = Buffer.allocUnsafe(Number(headerBytes));
  await readFully(handle, header, 8, file);
  const dataStart = 8 + header.length;
  const { tensors, metadata } = parseHeader(header, size - dataStart, file);

  return {
    tensors,
    metadata,
    async read(name, options = {}) {
      const entry = tensors.get(name);
      if (!entry) throw invalidModel(file, `no tensor ${quoted(name)}`);
      const position = dataStart + entry.start;
      const values = await readFloats(handle, entry.dtype, position, entry.end - entry.start, file, name);
      if (options.allowNonFinite) return values;
      const bad = firstNonFinite(values);
      if (bad >= 0) throw invalidModel(file, `tensor ${quoted(name)} holds ${values[bad]} at element ${bad}`);
      return values;
    },
    close: () => handle.close(),
  };
}

async function readFloats(
  handle: FileHandle,
  dtype: string,
  position: number,
  bytes: number,
  file: string,
  name: string,
): Promise<Float32Array> {
  if (dtype === "F32") {
    // The file's bytes are the array's bytes: read in place, no copy. (Every platform the engine runs on is little-endian.)
    const values = allocate(bytes / 4, file, name);
    await readFully(handle, new Uint8Array(values.buffer), position, file);
    return values;
  }
  if (dtype !== "BF16" && dtype !== "F16") {
    throw new StatesetError("MODEL_UNSUPPORTED", `${file}: tensor ${quoted(name)} has dtype ${dtype}.`, {
      hint: "The engine reads F32, BF16 and F16 weights; convert the model to one of them (quantised models are not supported).",
    });
  }
  const convert = dtype === "BF16" ? bf16ToF32 : f16ToF32;
  const values = allocate(bytes / 2, file, name);
  const chunk = new Uint16Array(Math.min(bytes, chunkBytes) / 2);
  for (let done = 0; done < values.length; done += chunk.length) {
    const part = chunk.subarray(0, Math.min(chunk.length, values.length - done));
    await readFully(handle, new Uint8Array(part.buffer, 0, part.byteLength), position + done * 2, file);
    convert(part, values.subarray(done, done + part.length));
  }
  return values;
}

function allocate(length: number, file: string, name: string): Float32Array<ArrayBuffer> {
  try {
    return new Float32Array(length);
  } catch (cause) {
    throw new StatesetError(
      "OUT_OF_MEMORY",
      `${file}: tensor ${quoted(name)} needs ${Math.ceil((length * 4) / 2 ** 20)} MiB, more than can be allocated.`,
      { cause },
    );
  }
}

async function readFully(handle: FileHandle, target: Uint8Array, position: number, file: string): Promise<void> {
  let done = 0;
  while (done < target.length) {
    const length = Math.min(target.length - done, chunkBytes);
    const { bytesRead } = await handle.read(target, done, length, position + done).catch((cause: unknown) => {
      throw invalidModel(file, `reading at byte ${position + done} failed`, cause);
    });
    if (bytesRead === 0) throw invalidModel(file, `it ends at byte ${position + done}, in the middle of its data`);
    done += bytesRead;
  }
}
