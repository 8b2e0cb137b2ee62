import { StatesetError } from "../../error.ts";
import { bf16ToF32, f16ToF32, halfValues } from "../weights/float-formats.ts";
import { quoted } from "../weights/invalid-model.ts";
import { type GgmlType, ggmlFormat } from "./ggml-types.ts";

/**
 * Blocks of quantised numbers to 32-bit floats, to the bit as llama.cpp's reference does. Scales are halves (11 bits) and are multiplied by
 * at most 13 bits of whole numbers: those products are exact in 32 bits too, so that one rounding, when the result is stored, is all there
 * is, and fused or separate multiplication and addition give the same.
 *
 * q are the stored whole numbers, d and m halves:
 *   Q8_0, Q4_0, Q5_0: d · (q - offset)       Q4_1, Q5_1: d · q + m
 *   Q4_K, Q5_K: (d · scale) · q - m · min, scale and min 6 bits for each 32 numbers       Q6_K: (d · scale) · (q - 32), scale 8 bits for each 16
 */
type Blocks = (bytes: Uint8Array, out: Float32Array, half: (at: number) => number) => void;

/** Calls `each` with the place of a block in the bytes and of its first number. */
function blocks(
  type: GgmlType,
  each: (out: Float32Array, bytes: Uint8Array, half: (at: number) => number, at: number, to: number) => void,
): Blocks {
  const { block, bytes: size } = ggmlFormat(type);
  return (bytes, out, half) => {
    for (let at = 0, to = 0; to < out.length; at += size, to += block) each(out, bytes, half, at, to);
  };
}

const formats = {
  F32: (bytes, out) => new Uint8Array(out.buffer, out.byteOffset, out.byteLength).set(bytes),
  F16: (bytes, out) => f16ToF32(halves(bytes), out),
  BF16: (bytes, out) => bf16ToF32(halves(bytes), out),
  Q8_0: blocks("Q8_0", (out, bytes, half, at, to) => {
    const d = half(at);
    for (let i = 0; i < 32; i++) out[to + i] = d * signed(bytes[at + 2 + i]!);
  }),
  Q4_0: blocks("Q4_0", (out, bytes, half, at, to) => {
    const d = half(at);
    for (let i = 0; i < 16; i++) {
      const pair = bytes[at + 2 + i]!;
      out[to + i] = d * ((pair & 15) - 8);
      out[to + 16 + i] = d * ((pair >>> 4) - 8);
    }
  }),
  Q4_1: blocks("Q4_1", (out, bytes, half, at, to) => {
    const [d, m] = [half(at), half(at + 2)];
    for (let i = 0; i < 16; i++) {
      const pair = bytes[at + 4 + i]!;
      out[to + i] = d * (pair & 15) + m;
      out[to + 16 + i] = d * (pair >>> 4) + m;
    }
  }),
  Q5_0: blocks("Q5_0", (out, bytes, half, at, to) => {
    const d = half(at);
    for (let i = 0; i < 32; i++) out[to + i] = d * (fiveBits(bytes, at + 2, i) - 16);
  }),
  Q5_1: blocks("Q5_1", (out, bytes, half, at, to) => {
    const [d, m] = [half(at), half(at + 2)];
    for (let i = 0; i < 32; i++) out[to + i] = d * fiveBits(bytes, at + 4, i) + m;
  }),
  Q4_K: blocks("Q4_K", (out, bytes, half, at, to) => {
    for (let part = 0; part < 8; part++) {
      const [d, m] = scaleAndMin(bytes, half, at, part);
      const [quants, shift] = [at + 16 + 32 * (part >> 1), 4 * (part & 1)];
      for (let i = 0; i < 32; i++) out[to + 32 * part + i] = d * ((bytes[quants + i]! >>> shift) & 15) - m;
    }
  }),
  Q5_K: blocks("Q5_K", (out, bytes, half, at, to) => {
    for (let part = 0; part < 8; part++) {
      const [d, m] = scaleAndMin(bytes, half, at, part);
      const [quants, shift] = [at + 48 + 32 * (part >> 1), 4 * (part & 1)];
      for (let i = 0; i < 32; i++) {
        const high = (bytes[at + 16 + i]! >>> part) & 1;
        out[to + 32 * part + i] = d * (((bytes[quants + i]! >>> shift) & 15) | (high << 4)) - m;
      }
    }
  }),
  Q6_K: blocks("Q6_K", (out, bytes, half, at, to) => {
    const d = half(at + 208);
    // Two halves of 128 numbers, each four runs of 32: the low bits lie in 64 bytes, the high ones in 32.
    for (let run = 0; run < 8; run++) {
      const [side, quarter] = [run >> 2, run & 3];
      const low = at + 64 * side + 32 * (quarter & 1);
      const high = at + 128 + 32 * side;
      for (let i = 0; i < 32; i++) {
        const q = ((bytes[low + i]! >>> (4 * (quarter >> 1))) & 15) | (((bytes[high + i]! >>> (2 * quarter)) & 3) << 4);
        out[to + 32 * run + i] = d * signed(bytes[at + 192 + 2 * run + (i >> 4)]!) * (q - 32);
      }
    }
  }),
} as const satisfies Partial<Record<GgmlType, Blocks>>;

/** The types that can be read. */
export type ReadableType = keyof typeof formats;

export const readableHint = `These are read: ${Object.keys(formats).join(", ")}. Take a file of the model in one of them, such as Q4_K_M or Q8_0.`;

export function requireReadable(type: GgmlType, name: string, file: string): ReadableType {
  if (Object.hasOwn(formats, type)) return type as ReadableType;
  throw new StatesetError("MODEL_UNSUPPORTED", `${file}: tensor ${quoted(name)} has the type ${type}.`, {
    hint: readableHint,
  });
}

/** Fills `out` from whole blocks. */
export function dequantise(type: ReadableType, bytes: Uint8Array, out: Float32Array): void {
  const table = halfValues();
  formats[type](bytes, out, (at) => table[bytes[at]! | (bytes[at + 1]! << 8)]!);
}

/** A view where the bytes lie on an even address, else a copy. */
function halves(bytes: Uint8Array): Uint16Array {
  const aligned = bytes.byteOffset % 2 === 0 ? bytes : bytes.slice();
  return new Uint16Array(aligned.buffer, aligned.byteOffset, aligned.length / 2);
}

function signed(byte: number): number {
  return (byte << 24) >> 24;
}

/** Number i of a block of 32 whose fifth bits lie in the 4 bytes at `at`, the other four in the 16 behind them. */
function fiveBits(bytes: Uint8Array, at: number, i: number): number {
  const low = (bytes[at + 4 + (i & 15)]! >>> (i < 16 ? 0 : 4)) & 15;
  return low | (((bytes[at + (i >> 3)]! >>> (i & 7)) & 1) << 4);
}

/** Of 32 of the 256 numbers. Eight pairs of 6 bits lie in 12 bytes: the upper bits of the last four pairs above the first ones. */
function scaleAndMin(bytes: Uint8Array, half: (at: number) => number, at: number, part: number): [number, number] {
  const byte = (i: number) => bytes[at + 4 + i]!;
  const [scale, min] =
    part < 4
      ? [byte(part) & 63, byte(part + 4) & 63]
      : [(byte(part + 4) & 15) | ((byte(part - 4) >>> 6) << 4), (byte(part + 4) >>> 4) | ((byte(part) >>> 6) << 4)];
  return [half(at) * scale, half(at + 2) * min];
}
