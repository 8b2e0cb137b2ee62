import { describe, expect, it } from "vitest";
import { sequenceCorrection, tokenCorrection } from "./correction.ts";
import { randomSequences } from "./random-batch.ts";

const truncate = { mode: "truncate", cap: 2, low: 0.5, high: 5, sequenceMask: false } as const;
const mask = { ...truncate, mode: "mask" } as const;

/** A sequence whose weights exp(old − sampled) are these. */
function weighing(...weights: number[]) {
  const old = new Float32Array(weights.length).fill(-1);
  return { ...randomSequences()[0]!, old, sampled: Float32Array.from(weights, (w) => -1 - Math.log(w)) };
}
const rounded = (weights: Float64Array | undefined) => weights && Array.from(weights, (w) => Number(w.toFixed(5)));

describe("mismatch correction", () => {
  it("truncates weights above the cap", () => {
    expect(rounded(tokenCorrection(weighing(0.1, 1, 1.5, 9), truncate))).toEqual([0.1, 1, 1.5, 2]);
  });

  it("masks weights outside the bounds", () => {
    expect(rounded(tokenCorrection(weighing(0.1, 1, 4, 9), mask))).toEqual([0, 1, 4, 0]);
  });

  it("drops a whole sequence by its geometric mean", () => {
    expect(rounded(tokenCorrection(weighing(0.1, 0.2, 1), { ...truncate, sequenceMask: true }))).toEqual([0, 0, 0]);
    expect(rounded(tokenCorrection(weighing(0.5, 2, 1), { ...truncate, sequenceMask: true }))).toEqual([0.5, 2, 1]);
  });

  it("weighs a sequence by the mean or the product of its tokens", () => {
    expect(sequenceCorrection(weighing(1, 1.44), truncate, "mean")).toBeCloseTo(1.2, 5);
    expect(sequenceCorrection(weighing(1, 1.44), truncate, "product")).toBeCloseTo(1.44, 5);
    expect(sequenceCorrection(weighing(3, 3), truncate, "product")).toBe(2);
    expect(sequenceCorrection(weighing(3, 3), mask, "product")).toBe(0);
  });

  it("does nothing where sampler and trainer are one", () => {
    expect(tokenCorrection(randomSequences()[0]!, truncate)).toBe(undefined);
    expect(sequenceCorrection(randomSequences()[0]!, truncate, "mean")).toBe(1);
    expect(tokenCorrection(weighing(9), undefined)).toBe(undefined);
  });
});
