import type { FileHandle } from "node:fs/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import { StatesetError } from "../../error.ts";
import { bf16ToF32, f16ToF32, firstNonFinite } from "./float-formats.ts";
import { invalidModel, quoted } from "./invalid-model.ts";
import { allocate, openWeightFile, readFully, refusePointer } from "./read-file.ts";
import { maxHeaderBytes, parseHeader, type SafetensorsHeader } from "./safetensors-header.ts";

/** Values that are looked at without a pause: a server that changes its weights goes on with its streams between. */
const atOnce = 1 << 18;

export interface ReadOptions {
  /** Accept NaN and infinities. Default false: they are an error that names the tensor. */
  allowNonFinite?: boolean;
  /** Memory to read into where it is large enough; what comes back is then a part of it. Of safetensors files alone. */
  into?: Float32Array<ArrayBuffer>;
}

/** One open safetensors file. Only the header has been read; tensors are read when asked for. */
export interface SafetensorsFile extends SafetensorsHeader {
  read(name: string, options?: ReadOptions): Promise<Float32Array>;
  close(): Promise<void>;
}

export function openSafetensors(file: string): Promise<SafetensorsFile> {
  return openWeightFile(file, (handle, size) => readHeader(handle, size, file));
}

async function readHeader(handle: FileHandle, size: number, file: string): Promise<SafetensorsFile> {
  if (size < 8) throw invalidModel(file, `only ${size} bytes long`);
  const prefix = Buffer.alloc(8);
  await readFully(handle, prefix, 0, file);
  refusePointer(prefix, file);
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
      const where = { position, bytes: entry.end - entry.start, file, name };
      const values = await readFloats(handle, entry.dtype, where, options.into);
      if (options.allowNonFinite) return values;
      for (let from = 0; from < values.length; from += atOnce) {
        const bad = firstNonFinite(values.subarray(from, from + atOnce));
        if (bad < 0) await nextTurn();
        else throw invalidModel(file, `tensor ${quoted(name)} holds ${values[from + bad]} at element ${from + bad}`);
      }
      return values;
    },
    close: () => handle.close(),
  };
}

async function readFloats(
  handle: FileHandle,
  dtype: string,
  { position, bytes, file, name }: { position: number; bytes: number; file: string; name: string },
  into: Float32Array<ArrayBuffer> | undefined,
): Promise<Float32Array> {
  const memoryFor = (length: number) =>
    into && into.length >= length ? into.subarray(0, length) : allocate(length, file, `tensor ${quoted(name)}`);
  if (dtype === "F32") {
    // The file's bytes are the array's bytes: read in place, no copy. (Every platform the engine runs on is little-endian.)
    const values = memoryFor(bytes / 4);
    await readFully(handle, new Uint8Array(values.buffer, values.byteOffset, bytes), position, file);
    return values;
  }
  if (dtype !== "BF16" && dtype !== "F16") {
    throw new StatesetError("MODEL_UNSUPPORTED", `${file}: tensor ${quoted(name)} has dtype ${dtype}.`, {
      hint: "The engine reads F32, BF16 and F16 weights; convert the model to one of them. Quantised models are read from GGUF files.",
    });
  }
  const convert = dtype === "BF16" ? bf16ToF32 : f16ToF32;
  const values = memoryFor(bytes / 2);
  const chunk = new Uint16Array(Math.min(bytes / 2, atOnce));
  for (let done = 0; done < values.length; done += chunk.length) {
    const part = chunk.subarray(0, Math.min(chunk.length, values.length - done));
    await readFully(handle, new Uint8Array(part.buffer, 0, part.byteLength), position + done * 2, file);
    convert(part, values.subarray(done, done + part.length));
  }
  return values;
}
