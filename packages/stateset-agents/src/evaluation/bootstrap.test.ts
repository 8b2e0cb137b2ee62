import { describe, expect, it } from "vitest";
import { createRandom } from "../random.ts";
import { bootstrapGroups, bootstrapMean, quantile } from "./bootstrap.ts";

describe("bootstrapMean", () => {
  it("covers the true mean about as often as its level says", () => {
    const random = createRandom(7);
    // Sum of 12 uniforms minus 6: nearly normal, mean 0, variance 1.
    const normal = () => Array.from({ length: 12 }, () => random.next()).reduce((a, b) => a + b, -6);
    let covered = 0;
    const trials = 300;
    for (let t = 0; t < trials; t++) {
      const { low, high } = bootstrapMean(Array.from({ length: 40 }, normal), { seed: t, resamples: 400 });
      if (low <= 0 && 0 <= high) covered++;
    }
    expect(covered / trials).toBeGreaterThan(0.89);
    expect(covered / trials).toBeLessThan(0.985);
  });

  it("gives the same interval for the same seed and another for another", () => {
    const values = [0.1, 0.5, 0.4, 0.9, 0.2, 0.7];
    expect(bootstrapMean(values, { seed: 3 })).toEqual(bootstrapMean(values, { seed: 3 }));
    expect(bootstrapMean(values, { seed: 3 })).not.toEqual(bootstrapMean(values, { seed: 4 }));
  });

  it("has no width for constants and no number for nothing", () => {
    expect(bootstrapMean([2, 2, 2])).toEqual({ mean: 2, low: 2, high: 2, count: 3 });
    expect(bootstrapMean([]).mean).toBeNaN();
  });

  it("counts scenarios, not their samples, as units", () => {
    // Two scenarios that differ a lot: more samples of each must not narrow the interval.
    const few = bootstrapGroups([
      [0, 0],
      [1, 1],
    ]);
    const many = bootstrapGroups([Array(50).fill(0), Array(50).fill(1)]);
    expect(many).toEqual(few);
    expect(many.count).toBe(2);
  });

  it("interpolates quantiles", () => {
    expect(quantile([0, 10], 0.25)).toBe(2.5);
    expect(quantile([1, 2, 3], 1)).toBe(3);
  });
});
