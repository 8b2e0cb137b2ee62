/**
 * The frames of the wire, as `python/stateset_agents_worker/frames.py` writes and reads them.
 *
 * A frame is a u64 (little-endian) N and N bytes: a safetensors blob. Its metadata holds the envelope as JSON text, its tensors
 * are one-dimensional arrays without gaps, widest elements first, so that each can be viewed where it lies. Whatever breaks a
 * rule throws, and the connection must be closed: nothing of a damaged frame is believed.
 */
import { StatesetError } from "../../error.ts";
import { quoted } from "../weights/invalid-model.ts";
import { duplicateKey, isRecord } from "../weights/safetensors-header.ts";

export type FrameArray = Int32Array | Float32Array | Uint8Array | BigInt64Array | Float64Array;

export interface Frame {
  envelope: Record<string, unknown>;
  arrays: Record<string, FrameArray>;
}

export const maxFrameBytes = 2 ** 30;
/** Before the greeting succeeded nobody is trusted with more. */
export const maxFirstFrameBytes = 2 ** 16;
const maxHeaderBytes = 2 ** 20;
const maxArrays = 64;
const maxDepth = 16;
const firstPieceBytes = 2 ** 20;

const kinds = {
  I64: BigInt64Array,
  F64: Float64Array,
  I32: Int32Array,
  F32: Float32Array,
  U8: Uint8Array,
} as const;

/**
 * The parts of a frame, in order: its head, then each array where it lies (not copied: leave it unchanged until it is sent).
 * A number that is not finite becomes null in the envelope, as everywhere in JSON.
 */
export function encodeFrame(
  envelope: Readonly<Record<string, unknown>>,
  arrays: Readonly<Record<string, FrameArray>> = {},
  limit = maxFrameBytes,
): Uint8Array[] {
  const ordered = Object.entries(arrays).sort(([, a], [, b]) => b.BYTES_PER_ELEMENT - a.BYTES_PER_ELEMENT);
  if (ordered.length > maxArrays) throw tooMuch(`${ordered.length} arrays in one frame; at most ${maxArrays} may be`);
  const header: Record<string, unknown> = { __metadata__: { frame: JSON.stringify(envelope) } };
  let offset = 0;
  for (const [name, array] of ordered) {
    const end = offset + array.byteLength;
    header[name] = { dtype: dtypeOf(name, array), shape: [array.length], data_offsets: [offset, end] };
    offset = end;
  }
  const text = Buffer.from(JSON.stringify(header), "utf8");
  const head = Buffer.alloc(16 + Math.ceil(text.length / 8) * 8, " ");
  const total = head.length - 8 + offset;
  if (head.length - 16 > maxHeaderBytes) {
    throw tooMuch(`a header of ${head.length - 16} bytes; at most ${maxHeaderBytes} may be`);
  }
  if (total > limit) throw tooMuch(`a frame of ${total} bytes; at most ${limit} may be`);
  head.writeBigUInt64LE(BigInt(total), 0);
  head.writeBigUInt64LE(BigInt(head.length - 16), 8);
  text.copy(head, 16);
  const parts = ordered.filter(([, { byteLength }]) => byteLength > 0);
  return [head, ...parts.map(([, array]) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength))];
}

/** Reads one blob, which must begin at a multiple of 8 of its memory; the arrays are views of it. */
export function decodeFrame(blob: Uint8Array): Frame {
  if (blob.length < 8) throw damaged(`a frame of ${blob.length} bytes`);
  const headerBytes = Number(new DataView(blob.buffer, blob.byteOffset).getBigUint64(0, true));
  if (headerBytes > Math.min(maxHeaderBytes, blob.length - 8)) {
    throw damaged(`a header of ${headerBytes} bytes in a frame of ${blob.length}; at most ${maxHeaderBytes} may be`);
  }
  if (headerBytes % 8 !== 0) throw damaged(`a header of ${headerBytes} bytes, which is no multiple of 8`);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(blob.subarray(8, 8 + headerBytes));
  } catch {
    throw damaged("the header is not UTF-8");
  }
  const { __metadata__: metadata, ...entries } = parse(text, "the header");
  if (!isRecord(metadata) || Object.keys(metadata).length !== 1 || typeof metadata.frame !== "string") {
    throw damaged("its metadata is not an envelope");
  }
  const count = Object.keys(entries).length;
  if (count > maxArrays) throw damaged(`${count} arrays in one frame; at most ${maxArrays} may be`);
  const data = blob.subarray(8 + headerBytes);
  const arrays: Record<string, FrameArray> = {};
  let offset = 0;
  for (const [name, entry] of Object.entries(entries)) {
    arrays[name] = view(data, name, entry, offset);
    offset += arrays[name].byteLength;
  }
  if (offset !== data.length) throw damaged(`the last ${data.length - offset} bytes belong to no array`);
  return { envelope: parse(metadata.frame, "the envelope"), arrays };
}

/** Makes frames of the bytes of a connection. Memory is taken as bytes arrive, never because a length was announced. */
export class FrameReader {
  /** The largest frame that is taken; may be changed between frames. */
  limit: number;
  readonly #prefix = Buffer.alloc(8);
  #prefixBytes = 0;
  #blob: Uint8Array | undefined;
  #length = 0;
  #got = 0;

  constructor(limit = maxFrameBytes) {
    this.limit = limit;
  }

  /** Whether no frame has begun: the other side may go now without having cut one off. */
  get between(): boolean {
    return this.#blob === undefined && this.#prefixBytes === 0;
  }

  *push(chunk: Uint8Array): Generator<Frame, void> {
    for (let at = 0; at < chunk.length; ) {
      if (this.#blob === undefined) {
        const part = chunk.subarray(at, at + 8 - this.#prefixBytes);
        this.#prefix.set(part, this.#prefixBytes);
        this.#prefixBytes += part.length;
        at += part.length;
        if (this.#prefixBytes < 8) return;
        this.#blob = this.#begin(Number(this.#prefix.readBigUInt64LE(0)));
      }
      const part = chunk.subarray(at, at + this.#length - this.#got);
      this.#blob = this.#withRoom(this.#blob, this.#got + part.length);
      this.#blob.set(part, this.#got);
      this.#got += part.length;
      at += part.length;
      if (this.#got < this.#length) return;
      const blob = this.#blob;
      this.#blob = undefined;
      this.#prefixBytes = 0;
      yield decodeFrame(blob);
    }
  }

  #begin(length: number): Uint8Array {
    if (length > this.limit) throw damaged(`a frame of ${length} bytes; at most ${this.limit} may be`);
    if (length < 8) throw damaged(`a frame of ${length} bytes`);
    this.#length = length;
    this.#got = 0;
    return memoryOf(Math.min(length, firstPieceBytes));
  }

  /** Doubles, and never beyond what was announced: at most twice what has arrived is held. */
  #withRoom(blob: Uint8Array, needed: number): Uint8Array {
    if (needed <= blob.length) return blob;
    const larger = memoryOf(Math.min(this.#length, Math.max(needed, 2 * blob.length)));
    larger.set(blob.subarray(0, this.#got));
    return larger;
  }
}

/** Memory of its own, so that arrays lie as they must; every byte of it is written before it is read. */
function memoryOf(bytes: number): Uint8Array {
  return Buffer.allocUnsafeSlow(bytes);
}

function dtypeOf(name: string, array: FrameArray): string {
  for (const [dtype, Kind] of Object.entries(kinds)) if (array instanceof Kind && isArrayName(name)) return dtype;
  throw new StatesetError("INVALID_OPTION", `Array ${quoted(name)} cannot be sent to the worker.`);
}

function view(data: Uint8Array, name: string, entry: unknown, offset: number): FrameArray {
  const fail = (what: string) => damaged(`array ${quoted(name)}: ${what}`);
  if (!isArrayName(name)) throw damaged(`an array named ${quoted(name)}`);
  if (!isRecord(entry) || Object.keys(entry).sort().join() !== "data_offsets,dtype,shape") {
    throw fail("its entry is not dtype, shape and data_offsets");
  }
  const { dtype, shape, data_offsets: offsets } = entry;
  if (typeof dtype !== "string" || !Object.hasOwn(kinds, dtype)) {
    throw fail(`its dtype is none of ${Object.keys(kinds).join(", ")}`);
  }
  if (!isSizes(shape, 1)) throw fail("its shape is not one size");
  if (!isSizes(offsets, 2)) throw fail("data_offsets is not a pair of byte positions");
  const Kind = kinds[dtype as keyof typeof kinds];
  const [length, start, end] = [shape[0]!, offsets[0]!, offsets[1]!];
  if (start !== offset || end > data.length || end - start !== length * Kind.BYTES_PER_ELEMENT) {
    throw fail(`bytes ${start} to ${end} do not hold it, or do not follow the last one`);
  }
  if (start % Kind.BYTES_PER_ELEMENT !== 0) {
    throw fail(`byte ${start} is no place for elements of ${Kind.BYTES_PER_ELEMENT} bytes`);
  }
  return new Kind(data.buffer as ArrayBuffer, data.byteOffset + start, length);
}

function parse(text: string, what: string): Record<string, unknown> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw damaged(`${what} is not JSON`);
  }
  if (!isRecord(json)) throw damaged(`${what} is not a JSON object`);
  if (duplicateKey(text) !== undefined) throw damaged("a name stands twice in one JSON object");
  check(json, 1, what);
  return json;
}

function check(value: unknown, depth: number, what: string): void {
  if (typeof value === "object" && value !== null) {
    if (depth > maxDepth) throw damaged(`${what} is nested deeper than ${maxDepth}`);
    for (const inner of Object.values(value)) check(inner, depth + 1, what);
  } else if (typeof value === "number" && !Number.isFinite(value)) {
    throw damaged(`${what} holds a number that is not finite`);
  }
}

function isArrayName(name: string): boolean {
  return /^[a-zA-Z]+$/.test(name);
}

function isSizes(value: unknown, count: number): value is number[] {
  return Array.isArray(value) && value.length === count && value.every((one) => Number.isSafeInteger(one) && one >= 0);
}

function damaged(what: string): StatesetError {
  return new StatesetError("ENGINE_FAILED", `The worker sent a frame that cannot be read: ${what}.`);
}

function tooMuch(what: string): StatesetError {
  return new StatesetError("INVALID_OPTION", `A message to the worker is too large: ${what}.`, {
    hint: "Lower tokenBudget.",
  });
}
