import { describe, expect, it } from "vitest";
import { createRandom, type Random } from "../random.ts";
import { estimateGroups, estimateMean } from "./estimate.ts";
import { twoSided } from "./quantile.ts";

/** Draws n scores whose true mean it names. */
type Shape = (random: Random) => { truth: number; draw: () => number };

const shapes: Record<string, Shape> = {
  uniform: (random) => ({ truth: 0.5, draw: () => random.next() }),
  // The rate differs from trial to trial: at one rate the coverage jumps with n, whatever the interval, because a count is whole.
  "pass or fail": (random) => {
    const rate = 0.1 + 0.8 * random.next();
    return { truth: rate, draw: () => (random.next() < rate ? 1 : 0) };
  },
  // Most near 1, a tail towards 0: Beta(3, 1), skewness −0.86.
  skewed: (random) => ({ truth: 0.75, draw: () => Math.cbrt(random.next()) }),
  "two clusters": (random) => ({ truth: 0.5, draw: () => (random.next() < 0.5 ? 0 : 0.55) + 0.45 * random.next() }),
};

/** How many of the intervals hold the true mean. */
function coverage(shape: Shape, n: number, trials: number): number {
  const random = createRandom(n);
  let held = 0;
  for (let trial = 0; trial < trials; trial++) {
    const { truth, draw } = shape(random);
    const { low, high } = estimateMean(Array.from({ length: n }, draw));
    if (low !== undefined && low <= truth && truth <= high!) held++;
  }
  return held / trials;
}

describe("estimateMean", () => {
  it.each(Object.entries(shapes))("holds the true mean in 93 to 97 of 100 intervals from n = 5: %s", (name, shape) => {
    const rows = [5, 6, 7, 8, 9, 10, 12, 15, 20, 30, 50].map((n) => ({ n, covered: coverage(shape, n, 12_000) }));
    if (process.env.STATESET_COVERAGE)
      console.log(name, rows.map(({ n, covered }) => `${n}: ${covered.toFixed(3)}`).join("  "));
    for (const { n, covered } of rows) {
      expect(covered, `n = ${n}`).toBeGreaterThan(0.93);
      expect(covered, `n = ${n}`).toBeLessThan(0.97);
    }
  });

  it("stays near that where scores are harder, and never says how sure it is of what it did not see", () => {
    // Beta(4, 1), skewness −1.05.
    const verySkewed: Shape = (random) => ({ truth: 0.8, draw: () => random.next() ** 0.25 });
    expect(coverage(verySkewed, 5, 8000)).toBeGreaterThan(0.92);
    // One scenario in ten fails, and of ten a third of the draws have none that does: no interval made of them can know.
    const rare: Shape = (random) => ({
      truth: 0.9 * 0.95 + 0.1 * 0.15,
      draw: () => (random.next() < 0.1 ? 0.1 : 0.9) + 0.1 * random.next(),
    });
    expect(coverage(rare, 10, 4000)).toBeLessThan(0.8);
    expect(coverage(rare, 50, 4000)).toBeGreaterThan(0.9);
  });

  it("gives none below 5 units", () => {
    for (const n of [1, 2, 3, 4]) {
      const estimate = estimateMean(Array.from({ length: n }, (_, i) => i / 4));
      expect(estimate).toEqual({ mean: (n - 1) / 8, count: n });
    }
    expect(estimateMean([])).toEqual({ mean: Number.NaN, count: 0 });
  });

  it("stays on the scale, and says what equal scores leave open", () => {
    expect(estimateMean([1, 1, 1, 1, 1, 0.9]).high).toBe(1);
    // Wilson 1927: 5 of 5 leaves z² / (n + z²) open.
    const all = estimateMean([1, 1, 1, 1, 1]);
    expect([all.low, all.high]).toEqual([expect.closeTo(0.5655, 4), 1]);
    const half = estimateMean(Array.from({ length: 30 }, () => 0.5));
    expect([half.low, half.high]).toEqual([expect.closeTo(0.4433, 3), expect.closeTo(0.5567, 3)]);
    // Without ends there is nothing to measure it by.
    expect(estimateMean([12, 12, 12, 12, 12])).toEqual({ mean: 12, count: 5 });
    expect(estimateMean([9, 10, 9, 10, 9], { bounds: [0, 10] }).high).toBe(10);
  });

  it("is Student's interval for symmetric values, at any level", () => {
    const { low, high } = estimateMean([-2, -1, 0, 1, 2], { level: 0.9 });
    expect([low, high]).toEqual([
      expect.closeTo(-2.132 * Math.sqrt(0.5), 3),
      expect.closeTo(2.132 * Math.sqrt(0.5), 3),
    ]);
    // Tables: t(1), t(4), t(5), t(29), normal.
    const table = [1, 4, 5, 29, Number.POSITIVE_INFINITY].map((df) => twoSided(0.95, df).toFixed(3));
    expect(table).toEqual(["12.706", "2.776", "2.571", "2.045", "1.960"]);
    expect(twoSided(0.99, 2).toFixed(3)).toBe("9.925");
  });

  it("counts scenarios, not their samples, as units", () => {
    const scenarios = [0, 1, 0.5, 0.25, 0.75, 1];
    const few = estimateGroups(scenarios.map((score) => [score, score]));
    const many = estimateGroups(scenarios.map((score) => Array<number>(64).fill(score)));
    expect(many).toEqual(few);
    expect(many.count).toBe(6);
  });
});
