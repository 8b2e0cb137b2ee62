import type { FileHandle } from "node:fs/promises";
import { StatesetError } from "../../error.ts";
import { invalidModel, quoted } from "../weights/invalid-model.ts";
import { openWeightFile, readFully, refusePointer } from "../weights/read-file.ts";
import { readableHint } from "./dequantise.ts";
import { formerTypes, type GgmlType, ggmlFormat, ggmlTypeOf } from "./ggml-types.ts";
import { GgufCursor, maxHeaderBytes, NeedsMore } from "./gguf-cursor.ts";
import { type GgufMetadata, type GgufValue, MetadataReader } from "./gguf-metadata.ts";

export interface GgufTensor {
  type: GgmlType;
  /** Row-major, as everywhere else here: the file writes its sizes the other way round. */
  shape: readonly number[];
  /** Its first byte in the file. */
  start: number;
  bytes: number;
}

export interface GgufHeader {
  metadata: GgufMetadata;
  tensors: ReadonlyMap<string, GgufTensor>;
}

/** Metadata and tensor table of a GGUF file; none of its tensors is read. */
export async function readGgufHeader(file: string): Promise<GgufHeader> {
  const { handle, header } = await openGgufHeader(file);
  await handle.close();
  return header;
}

/** The header, and the handle to read tensors with. */
export function openGgufHeader(file: string): Promise<{ handle: FileHandle; header: GgufHeader }> {
  return openWeightFile(file, async (handle, size) => {
    // Where the header ends is known only once it is read: twice as much until it fits.
    for (let length = 2 ** 20; ; length *= 2) {
      const bytes = Buffer.allocUnsafe(Math.min(length, size, maxHeaderBytes));
      await readFully(handle, bytes, 0, file);
      try {
        return { handle, header: parseGgufHeader(bytes, size, file) };
      } catch (error) {
        if (!(error instanceof NeedsMore)) throw error;
      }
    }
  });
}

/**
 * Reads the header from the first `bytes` of a file of `fileSize` and checks all of it: nothing in the result needs to be doubted again.
 * Throws NeedsMore where the bytes do not hold the whole header but the file may.
 */
export function parseGgufHeader(bytes: Uint8Array, fileSize: number, file: string): GgufHeader {
  refusePointer(bytes, file);
  if (Buffer.from(bytes.subarray(0, 4)).toString("latin1") !== "GGUF") {
    throw invalidModel(file, `it is ${fileSize} bytes long and does not begin with "GGUF"`);
  }
  const cursor = new GgufCursor(bytes, fileSize, file);
  cursor.at = 4;
  checkVersion(cursor.u32("its version"), file);
  // The least a tensor takes: an empty name, no sizes, its type and offset. The least a key takes: an empty name, a type, one byte.
  const tensorCount = cursor.count(24, "the number of tensors");
  const keyCount = cursor.count(13, "the number of metadata keys");
  const metadata = new Map<string, GgufValue>();
  for (let i = 0; i < keyCount; i++) {
    const key = cursor.text(`metadata key ${i}`);
    if (metadata.has(key)) throw invalidModel(file, `the metadata names ${quoted(key)} twice`);
    metadata.set(key, cursor.value(key));
  }
  const alignment = alignmentOf(metadata, file);
  const listed = new Map<string, Omit<GgufTensor, "start"> & { offset: number }>();
  for (let i = 0; i < tensorCount; i++) {
    const name = cursor.text(`the name of tensor ${i}`);
    if (listed.has(name)) throw invalidModel(file, `tensor ${quoted(name)} is there twice`);
    listed.set(name, readTensor(cursor, name, alignment, file));
  }
  const dataStart = Math.ceil(cursor.at / alignment) * alignment;
  const tensors = new Map<string, GgufTensor>();
  for (const [name, { offset, ...tensor }] of listed) tensors.set(name, { ...tensor, start: dataStart + offset });
  checkLayout(tensors, fileSize, file);
  return { metadata, tensors };
}

function checkVersion(version: number, file: string): void {
  if (version === 2 || version === 3) return;
  const swapped = version >= 2 ** 24 && version % 2 ** 24 === 0;
  const what = swapped ? "is written for big-endian machines" : `is of GGUF version ${version}`;
  throw new StatesetError("MODEL_UNSUPPORTED", `${file} ${what}.`, {
    hint: "Versions 2 and 3, little-endian, are read; convert the model anew with llama.cpp.",
  });
}

function alignmentOf(metadata: GgufMetadata, file: string): number {
  const alignment = new MetadataReader(metadata, file).count("general.alignment") ?? 32;
  if (alignment >= 1 && alignment <= 2 ** 30 && Number.isInteger(Math.log2(alignment))) return alignment;
  throw invalidModel(file, `general.alignment is ${alignment}, which is no power of 2`);
}

function readTensor(
  cursor: GgufCursor,
  name: string,
  alignment: number,
  file: string,
): Omit<GgufTensor, "start"> & { offset: number } {
  const fail = (what: string) => cursor.fail(`tensor ${quoted(name)}: ${what}`);
  const dimensions = cursor.u32(`tensor ${quoted(name)}`);
  if (dimensions > 4) throw fail(`it has ${dimensions} dimensions`);
  const sizes = Array.from({ length: dimensions }, () => cursor.size(`a size of tensor ${quoted(name)}`));
  const id = cursor.u32(`tensor ${quoted(name)}`);
  const offset = cursor.size(`the offset of tensor ${quoted(name)}`);
  const type = ggmlTypeOf(id);
  if (!type) {
    const what = `tensor ${quoted(name)}: its type ${formerTypes[id] ?? id} is not known here`;
    throw new StatesetError("MODEL_UNSUPPORTED", `${file}: ${what}.`, { hint: readableHint });
  }
  const { block, bytes } = ggmlFormat(type);
  if ((sizes[0] ?? 1) % block !== 0)
    throw fail(`its rows of ${sizes[0] ?? 1} are not whole ${type} blocks of ${block}`);
  // A product past 2^53 is no longer exact, and no file is that large.
  const total = sizes.includes(0) ? 0 : sizes.reduce((product, size) => product * size, bytes) / block;
  if (!Number.isSafeInteger(total * block))
    throw fail(`its sizes [${sizes.join(", ")}] multiply to more than any file`);
  if (offset % alignment !== 0) throw fail(`its offset ${offset} is no multiple of the alignment ${alignment}`);
  return { type, shape: Object.freeze(sizes.reverse()), bytes: total, offset };
}

function checkLayout(tensors: ReadonlyMap<string, GgufTensor>, fileSize: number, file: string): void {
  const inOrder = [...tensors].sort(([, a], [, b]) => a.start - b.start || a.bytes - b.bytes);
  let covered = 0;
  let previous = "";
  for (const [name, { start, bytes }] of inOrder) {
    if (start + bytes > fileSize) {
      throw invalidModel(
        file,
        `tensor ${quoted(name)} ends at byte ${start + bytes}, but the file has only ${fileSize} (truncated?)`,
      );
    }
    if (start < covered) throw invalidModel(file, `tensors ${quoted(previous)} and ${quoted(name)} overlap`);
    covered = start + bytes;
    previous = name;
  }
}
