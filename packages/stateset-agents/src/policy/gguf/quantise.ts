import { StatesetError } from "../../error.ts";
import { f32ToF16 } from "../weights/float-formats.ts";
import { quoted } from "../weights/invalid-model.ts";
import { ggmlFormat } from "./ggml-types.ts";

/** The types that are written. */
export const writableTypes = ["F32", "F16", "Q8_0"] as const;
export type WritableType = (typeof writableTypes)[number];

/** Numbers to the bytes of a file, rounded as llama.cpp's reference rounds them. */
export function quantise(type: WritableType, data: Float32Array, name: string): Uint8Array {
  if (type === "F32") return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (type === "Q8_0") return q8(data, name);
  const halves = new Uint16Array(data.length);
  f32ToF16(data, halves);
  const large = halves.findIndex((half) => (half & 0x7c00) === 0x7c00);
  if (large >= 0) throw tooLarge(name, data[large]!);
  return new Uint8Array(halves.buffer);
}

/** Blocks of 32: d = max|x| / 127 as a half, then round(x / d) with the d of before it was one, halves away from zero. */
function q8(data: Float32Array, name: string): Uint8Array {
  const { block, bytes: size } = ggmlFormat("Q8_0");
  const out = new Uint8Array((data.length / block) * size);
  const half = new Uint16Array(1);
  for (let from = 0, at = 0; from < data.length; from += block, at += size) {
    let largest = 0;
    for (let i = 0; i < block; i++) largest = Math.max(largest, Math.abs(data[from + i]!));
    const d = Math.fround(largest / 127);
    const inverse = d === 0 ? 0 : Math.fround(1 / d);
    f32ToF16(Float32Array.of(d), half);
    if (half[0]! >= 0x7c00) throw tooLarge(name, largest);
    out[at] = half[0]! & 255;
    out[at + 1] = half[0]! >>> 8;
    for (let i = 0; i < block; i++) {
      const scaled = Math.fround(data[from + i]! * inverse);
      out[at + 2 + i] = Math.sign(scaled) * Math.floor(Math.abs(scaled) + 0.5);
    }
  }
  return out;
}

function tooLarge(name: string, value: number): StatesetError {
  return new StatesetError("MODEL_UNSUPPORTED", `Tensor ${quoted(name)} holds ${value}, more than the type can.`, {
    hint: "Write it as f32.",
  });
}
