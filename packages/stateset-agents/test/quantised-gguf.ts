/** GGUF files of types that are read and never written, for tests: the matrices of a model become random blocks. */
import { readFile, writeFile } from "node:fs/promises";
import { exportGguf } from "../src/policy/gguf/export-gguf.ts";
import { ggmlFormat } from "../src/policy/gguf/ggml-types.ts";
import { readGgufHeader } from "../src/policy/gguf/gguf-header.ts";
import { f32ToF16 } from "../src/policy/weights/float-formats.ts";
import { createRandom } from "../src/random.ts";

/**
 * Halves at the beginning of a block, such that its numbers lie around zero with a deviation near 0.15 in Q4_1 and 0.06 in Q4_K, whose rows are longer.
 * Q4_1 is d·q + m, q below 16; Q4_K is d·scale·q − dmin·min, scale and min below 64.
 */
const halves = { Q4_1: [0.033, -7.5 * 0.033], Q4_K: [2.5e-4, 7.5 * 2.5e-4] } as const;

/** Writes the model of a folder to `file`, with random blocks of `type` where its matrices were; vectors stay. */
export async function writeRandomBlocks(
  dir: string,
  file: string,
  type: keyof typeof halves,
  seed: number,
): Promise<void> {
  await exportGguf({ dir, file, type: "F32", name: "tiny" });
  const { tensors } = await readGgufHeader(file);
  const bytes = await readFile(file);
  const random = createRandom(seed);
  const table: Buffer[] = [];
  const data: Buffer[] = [];
  let offset = 0;
  for (const [name, { shape, start, bytes: size }] of tensors) {
    const matrix = shape.length === 2;
    const { id } = ggmlFormat(matrix ? type : "F32");
    const numbers = shape.reduce((a, b) => a * b, 1);
    const content = matrix ? randomBlocks(type, numbers, random.next) : bytes.subarray(start, start + size);
    const padded = Buffer.concat([content, Buffer.alloc((32 - (content.length % 32)) % 32)]);
    const sizes = shape.toReversed().map(u64);
    table.push(u64(name.length), Buffer.from(name), u32(shape.length), ...sizes, u32(id), u64(offset));
    data.push(padded);
    offset += padded.length;
  }
  const [first] = tensors.keys();
  const metadata = bytes.subarray(0, bytes.indexOf(Buffer.concat([u64(first!.length), Buffer.from(first!)])));
  const header = Buffer.concat([metadata, ...table]);
  await writeFile(file, Buffer.concat([header, Buffer.alloc((32 - (header.length % 32)) % 32), ...data]));
}

function randomBlocks(type: keyof typeof halves, numbers: number, next: () => number): Buffer {
  const { block, bytes } = ggmlFormat(type);
  const out = Buffer.from(Uint8Array.from({ length: (numbers / block) * bytes }, () => 256 * next()));
  const scales = new Uint16Array(2);
  f32ToF16(Float32Array.from(halves[type]), scales);
  for (let at = 0; at < out.length; at += bytes) {
    out.writeUInt16LE(scales[0]!, at);
    out.writeUInt16LE(scales[1]!, at + 2);
  }
  return out;
}

function u32(value: number): Buffer {
  const out = Buffer.alloc(4);
  out.writeUInt32LE(value);
  return out;
}

function u64(value: number): Buffer {
  const out = Buffer.alloc(8);
  out.writeBigUInt64LE(BigInt(value));
  return out;
}
