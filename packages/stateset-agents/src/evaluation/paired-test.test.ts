import { describe, expect, it } from "vitest";
import { createRandom } from "../random.ts";
import { fewestPairs, pairedTest } from "./paired-test.ts";

describe("pairedTest", () => {
  it("computes the exact p-value of a small sample", () => {
    // All of 5 differences positive and equal: only the two patterns of one sign are as extreme, 2 / 2^5.
    expect(pairedTest([0, 0, 0, 0, 0], [1, 1, 1, 1, 1]).pValue).toBe(2 / 32);
    // Differences 1, 2, 3: sums ±6 only: 2 of 8.
    expect(pairedTest([0, 0, 0], [1, 2, 3]).pValue).toBe(0.25);
  });

  it("finds a small steady gain that the spread between scenarios would hide", () => {
    const random = createRandom(1);
    const a = Array.from({ length: 40 }, () => random.next() * 10);
    const b = a.map((score) => score + 0.1 + (random.next() - 0.5) * 0.1);
    const result = pairedTest(a, b, { seed: 1 });
    expect(result.verdict).toBe("b");
    expect(result.pValue).toBeLessThan(0.001);
    expect(result.difference.low).toBeGreaterThan(0);
    expect(result.wins).toEqual({ a: 0, b: 40, ties: 0 });
  });

  it("calls noise the same, with about the promised share of false alarms", () => {
    const random = createRandom(5);
    let alarms = 0;
    for (let t = 0; t < 200; t++) {
      const a = Array.from({ length: 20 }, () => random.next());
      const b = Array.from({ length: 20 }, () => random.next());
      if (pairedTest(a, b, { seed: t, resamples: 300 }).verdict !== "same") alarms++;
    }
    expect(alarms).toBeLessThan(22);
    expect(alarms).toBeGreaterThan(1);
  });

  it("cannot tell from four pairs, however alike they are, and says so", () => {
    const four = pairedTest([0.5, 0.4, 0.6, 0.3], [0.66, 0.6, 0.8, 0.54]);
    expect(four).toMatchObject({ verdict: "unknown", pValue: 2 / 16, wins: { b: 4 } });
    expect(four.difference).toEqual({ mean: expect.closeTo(0.2, 12), count: 4 });
    expect(fewestPairs()).toBe(6);
    expect(pairedTest([0, 0, 0, 0, 0, 0], [1, 2, 3, 1, 2, 3])).toMatchObject({
      verdict: "b",
      difference: { low: 1, high: 3 },
    });
  });

  it("never has a verdict that its interval does not have", () => {
    const random = createRandom(9);
    const seen = new Set<string>();
    for (let trial = 0; trial < 400; trial++) {
      const n = 6 + random.below(14);
      const shift = 0.6 * random.next() - 0.3;
      // Eighths, so that sums of exactly 0 come up.
      const a = Array.from({ length: n }, () => random.below(8) / 8);
      const b = a.map((score) => score + Math.round(8 * (random.next() - 0.5 + shift)) / 8);
      const { difference, verdict, pValue } = pairedTest(a, b, { seed: trial, resamples: 499 });
      const { low, high } = difference as { low: number; high: number };
      expect(verdict).toBe(low > 0 ? "b" : high < 0 ? "a" : "same");
      expect(pValue < 0.05).toBe(verdict !== "same");
      seen.add(verdict);
    }
    expect([...seen].sort()).toEqual(["a", "b", "same"]);
  });

  it("holds the true difference as often as it says", () => {
    const random = createRandom(3);
    for (const n of [6, 8, 12, 20, 50]) {
      let held = 0;
      const trials = 1000;
      for (let trial = 0; trial < trials; trial++) {
        const a = Array.from({ length: n }, () => Math.cbrt(random.next()));
        const b = Array.from({ length: n }, () => Math.cbrt(random.next()) + 0.1);
        const { low, high } = pairedTest(a, b, { seed: trial, resamples: 399 }).difference;
        if (low! <= 0.1 && 0.1 <= high!) held++;
      }
      // Of 6 pairs the next narrower interval would hold 94%.
      expect(held / trials).toBeGreaterThan(0.93);
      expect(held / trials).toBeLessThan(n === 6 ? 0.985 : 0.975);
    }
  });

  it("is certain about nothing when nothing differs", () => {
    expect(pairedTest([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6])).toMatchObject({
      pValue: 1,
      verdict: "same",
      wins: { ties: 6 },
    });
  });

  it("refuses lists that do not pair", () => {
    expect(() => pairedTest([1], [1, 2])).toThrow("got 1 and 2");
  });
});
