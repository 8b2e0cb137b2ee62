import { describe, expect, it } from "vitest";
import { createRandom, seedOf } from "./random.ts";

describe("createRandom", () => {
  it("repeats from a seed and goes on from a saved state", () => {
    const one = createRandom(7);
    const two = createRandom(7);
    expect(Array.from({ length: 5 }, one.next)).toEqual(Array.from({ length: 5 }, two.next));
    const resumed = createRandom(one.state());
    expect(resumed.next()).toBe(two.next());
  });
  it("is uniform enough for shuffling: every position is equally likely", () => {
    const random = createRandom(1);
    const counts = [0, 0, 0, 0];
    for (let i = 0; i < 8000; i++) counts[random.shuffled([0, 1, 2, 3]).indexOf(0)]!++;
    // Chi-square with 3 degrees of freedom: 16.3 is the 0.999 quantile.
    const chi2 = counts.reduce((sum, count) => sum + (count - 2000) ** 2 / 2000, 0);
    expect(chi2).toBeLessThan(16.3);
  });
});

describe("seedOf", () => {
  it("differs for neighbours and for parts that would join to the same text", () => {
    const seeds = new Set<number>();
    for (let step = 0; step < 50; step++)
      for (let member = 0; member < 50; member++) seeds.add(seedOf(1, "rollout", step, member));
    expect(seeds.size).toBe(2500);
    expect(seedOf("ab", "c")).not.toBe(seedOf("a", "bc"));
    expect(seedOf(12, 3)).not.toBe(seedOf(1, 23));
  });
});
