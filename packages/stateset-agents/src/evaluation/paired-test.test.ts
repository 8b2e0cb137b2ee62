import { describe, expect, it } from "vitest";
import { createRandom } from "../random.ts";
import { pairedTest } from "./paired-test.ts";

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

  it("is certain about nothing when nothing differs", () => {
    expect(pairedTest([1, 2], [1, 2])).toMatchObject({ pValue: 1, verdict: "same", wins: { ties: 2 } });
  });

  it("refuses lists that do not pair", () => {
    expect(() => pairedTest([1], [1, 2])).toThrow("got 1 and 2");
  });
});
