import { describe, expect, it } from "vitest";
import { f16ToF32, f32ToBf16 } from "./float-formats.ts";

describe("float formats", () => {
  it("rounds float32 to bfloat16 to nearest, ties to even, and keeps NaN", () => {
    const words = [0x3f800000, 0x3f808000, 0x3f818000, 0x3f808001, 0x7f7fffff, 0x7f800001, 0xffffffff, 0x80000000];
    const bits = new Uint16Array(words.length);
    f32ToBf16(new Float32Array(Uint32Array.from(words).buffer), bits);
    expect([...bits].map((half) => half.toString(16))).toEqual([
      "3f80",
      "3f80",
      "3f82",
      "3f81",
      "7f80",
      "7fc0",
      "ffff",
      "8000",
    ]);
  });

  it("reads every kind of half-precision number", () => {
    const halves = Uint16Array.of(0x3c00, 0xc000, 0x0001, 0x03ff, 0x0400, 0x7bff, 0x7c00, 0xfc00, 0x8000, 0x7e00);
    const values = new Float32Array(halves.length);
    f16ToF32(halves, values);
    expect([...values]).toEqual([1, -2, 2 ** -24, 1023 * 2 ** -24, 2 ** -14, 65504, Infinity, -Infinity, -0, NaN]);
  });
});
