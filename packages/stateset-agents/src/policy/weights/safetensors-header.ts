import { invalidModel, quoted } from "./invalid-model.ts";

/** Bytes of one element, for every dtype the format knows; the engine computes with the floating-point ones up to 32 bits. */
const elementBytes = {
  BOOL: 1,
  U8: 1,
  I8: 1,
  F8_E5M2: 1,
  F8_E4M3: 1,
  I16: 2,
  U16: 2,
  F16: 2,
  BF16: 2,
  I32: 4,
  U32: 4,
  F32: 4,
  I64: 8,
  U64: 8,
  F64: 8,
} as const;

export type Dtype = keyof typeof elementBytes;

export interface TensorEntry {
  dtype: Dtype;
  shape: readonly number[];
  /** Byte offsets into the data section. */
  start: number;
  end: number;
}

export interface SafetensorsHeader {
  tensors: Map<string, TensorEntry>;
  metadata: Readonly<Record<string, string>>;
}

/** The reference implementation refuses longer headers too. */
export const maxHeaderBytes = 100_000_000;

/**
 * Reads the JSON header of a safetensors file and checks all of it: nothing in the result needs to be doubted again.
 * Tensors must cover the `dataBytes` after the header exactly, without overlap and without gaps, as the format demands.
 */
export function parseHeader(bytes: Uint8Array, dataBytes: number, file: string): SafetensorsHeader {
  const json = parseJson(bytes, file);
  const tensors = new Map<string, TensorEntry>();
  let metadata: Record<string, string> = {};
  for (const [name, value] of Object.entries(json)) {
    if (name === "__metadata__") metadata = parseMetadata(value, file);
    else tensors.set(name, parseEntry(value, name, dataBytes, file));
  }
  checkLayout(tensors, dataBytes, file);
  return { tensors, metadata };
}

function parseJson(bytes: Uint8Array, file: string): Record<string, unknown> {
  let text: string;
  let json: unknown;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    json = JSON.parse(text);
  } catch (cause) {
    throw invalidModel(file, "the header is not JSON", cause);
  }
  if (!isRecord(json)) throw invalidModel(file, "the header is not a JSON object");
  const duplicate = duplicateKey(text);
  if (duplicate !== undefined) throw invalidModel(file, `the header names ${quoted(duplicate)} twice`);
  return json;
}

function parseMetadata(value: unknown, file: string): Record<string, string> {
  if (!isRecord(value) || Object.values(value).some((entry) => typeof entry !== "string")) {
    throw invalidModel(file, "__metadata__ is not an object of strings");
  }
  return value as Record<string, string>;
}

function parseEntry(value: unknown, name: string, dataBytes: number, file: string): TensorEntry {
  const fail = (what: string) => invalidModel(file, `tensor ${quoted(name)}: ${what}`);
  if (!isRecord(value)) throw fail("its entry is not an object");
  const surplus = Object.keys(value).find((key) => key !== "dtype" && key !== "shape" && key !== "data_offsets");
  if (surplus !== undefined) throw fail(`its entry has an unknown field ${quoted(surplus)}`);
  const { dtype, shape, data_offsets: offsets } = value;
  if (typeof dtype !== "string" || !Object.hasOwn(elementBytes, dtype)) {
    throw fail(`unknown dtype ${typeof dtype === "string" ? quoted(dtype) : typeof dtype}`);
  }
  if (!isSizes(shape)) throw fail("its shape is not a list of sizes");
  if (!isSizes(offsets) || offsets.length !== 2) throw fail("data_offsets is not a pair of byte positions");
  const [start, end] = offsets as [number, number];
  if (start > end) throw fail(`data_offsets run backwards (${start} to ${end})`);
  if (end > dataBytes) {
    throw fail(`its data ends at byte ${end}, but the file holds only ${dataBytes} bytes of data (truncated?)`);
  }
  // A product past 2^53 is no longer exact, and no file is that large.
  const bytes = shape.includes(0) ? 0 : shape.reduce((product, size) => product * size, elementBytes[dtype as Dtype]);
  if (!Number.isSafeInteger(bytes) || bytes !== end - start) {
    throw fail(
      `shape [${shape.slice(0, 8).join(", ")}] of ${dtype} does not take the ${end - start} bytes given to it`,
    );
  }
  return { dtype: dtype as Dtype, shape: Object.freeze(shape.slice()), start, end };
}

function checkLayout(tensors: Map<string, TensorEntry>, dataBytes: number, file: string): void {
  const inOrder = [...tensors].sort(([, a], [, b]) => a.start - b.start || a.end - b.end);
  let covered = 0;
  let previous = "";
  for (const [name, { start, end }] of inOrder) {
    if (start < covered) throw invalidModel(file, `tensors ${quoted(previous)} and ${quoted(name)} overlap`);
    if (start > covered) {
      throw invalidModel(file, `${start - covered} bytes before tensor ${quoted(name)} belong to no tensor`);
    }
    covered = end;
    previous = name;
  }
  if (covered !== dataBytes) throw invalidModel(file, `the last ${dataBytes - covered} bytes belong to no tensor`);
}

function isSizes(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && size >= 0);
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The first key an object of this (valid) JSON text repeats. JSON.parse would keep the last one and say nothing. */
export function duplicateKey(text: string): string | undefined {
  const open: (Set<string> | undefined)[] = [];
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (char === "{") open.push(new Set());
    else if (char === "[") open.push(undefined);
    else if (char === "}" || char === "]") open.pop();
    else if (char === '"') {
      const start = i;
      for (i++; text[i] !== '"'; i++) if (text[i] === "\\") i++;
      let next = i + 1;
      while (" \t\r\n".includes(text[next] ?? "x")) next++;
      if (text[next] !== ":") continue;
      const key = JSON.parse(text.slice(start, i + 1)) as string;
      const keys = open.at(-1);
      if (keys?.has(key)) return key;
      keys?.add(key);
    }
  }
  return undefined;
}
