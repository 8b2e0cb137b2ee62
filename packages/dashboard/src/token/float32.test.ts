import { describe, expect, it } from "vitest";
import { float32 } from "./float32.ts";

/** Any bits at all, seeded. */
function* someFloats(count: number): Generator<number> {
  const bits = new Uint32Array(1);
  const float = new Float32Array(bits.buffer);
  let state = 12345;
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    bits[0] = state ^ (state >>> 13);
    yield float[0]!;
  }
}

describe("float32()", () => {
  it("is read back as the same float32, whatever its bits", () => {
    for (const value of someFloats(20_000)) {
      if (Number.isFinite(value)) expect(Math.fround(Number(float32(value)))).toBe(value);
    }
  });

  it("has no digit too many: one less names another number", () => {
    for (const value of someFloats(2000)) {
      if (!Number.isFinite(value) || value === 0) continue;
      const digits = float32(value)
        .replace(/e.*/, "")
        .replace(/[-.]/g, "")
        .replace(/^0+/, "")
        .replace(/0+$/, "").length;
      if (digits > 1) expect(Math.fround(Number(value.toPrecision(digits - 1)))).not.toBe(value);
    }
  });

  it.each([
    [0.1, "0.1"],
    [-0.693147182, "-0.6931472"],
    [1, "1"],
    [16777216, "16777216"],
    [1.1754944e-38, "1.1754944e-38"],
    [-0.0000019073486, "-1.9073486e-6"],
    [0.0001, "0.0001"],
    [-0, "-0"],
    [Number.NaN, "NaN"],
    [Number.NEGATIVE_INFINITY, "-∞"],
  ])("prints %s as %s", (value, text) => {
    expect(float32(Math.fround(value))).toBe(text);
  });
});
