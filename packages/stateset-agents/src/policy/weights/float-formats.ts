/** Conversions between 32-bit floats and the two 16-bit formats of weight files. */

/** bfloat16 is the upper half of a float32. */
export function bf16ToF32(source: Uint16Array, target: Float32Array): void {
  const bits = new Uint32Array(target.buffer, target.byteOffset, target.length);
  for (let i = 0; i < source.length; i++) bits[i] = source[i]! << 16;
}

/** Rounds to nearest, ties to even; NaN stays NaN. */
export function f32ToBf16(source: Float32Array, target: Uint16Array): void {
  const bits = new Uint32Array(source.buffer, source.byteOffset, source.length);
  for (let i = 0; i < source.length; i++) {
    const word = bits[i]!;
    const notANumber = (word & 0x7fffffff) > 0x7f800000;
    target[i] = notANumber ? (word >>> 16) | 0x40 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  }
}

let halfTable: Float32Array | undefined;

/** There are only 65,536 half-precision numbers: look them up. */
export function halfValues(): Float32Array {
  halfTable ??= Float32Array.from({ length: 0x10000 }, (_, half) => halfToNumber(half));
  return halfTable;
}

export function f16ToF32(source: Uint16Array, target: Float32Array): void {
  const table = halfValues();
  for (let i = 0; i < source.length; i++) target[i] = table[source[i]!]!;
}

function halfToNumber(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >>> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** The index of the first NaN or infinity, or -1. */
export function firstNonFinite(values: Float32Array): number {
  // x - x is 0 for every finite x and NaN for the rest, so one branch-free pass settles the usual case.
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]! - values[i]!;
  return sum === 0 ? -1 : values.findIndex((value) => !Number.isFinite(value));
}

/** Rounds to nearest, ties to even; what is too large for the format becomes infinite, NaN stays NaN. */
export function f32ToF16(source: Float32Array, target: Uint16Array): void {
  const bits = new Uint32Array(source.buffer, source.byteOffset, source.length);
  for (let i = 0; i < source.length; i++) target[i] = halfBits(bits[i]!);
}

function halfBits(word: number): number {
  const sign = (word >>> 16) & 0x8000;
  const size = word & 0x7fffffff;
  if (size > 0x7f800000) return sign | 0x7e00;
  // From halfway between the largest half and the next power of 2 on.
  if (size >= 0x477ff000) return sign | 0x7c00;
  if (size >= 0x38800000) return sign | ((size - 0x38000000 + 0xfff + ((size >>> 13) & 1)) >>> 13);
  if (size < 0x33000000) return sign;
  // Subnormal: the significand with its leading 1, moved to where the last bit is worth 2^-24.
  const shift = 126 - (size >>> 23);
  const significand = (size & 0x7fffff) | 0x800000;
  const kept = significand >>> shift;
  const rest = significand & ((1 << shift) - 1);
  const half = 1 << (shift - 1);
  return sign | (rest > half || (rest === half && kept & 1) ? kept + 1 : kept);
}
