import { describe, expect, it } from "vitest";
import { outcomeOf, turned, verdictWords } from "./words.ts";

describe("the verdict of a paired test", () => {
  it("says better, worse and by how much", () => {
    const better = { mean: 0.21, low: 0.12, high: 0.3, count: 24 };
    expect(verdictWords(better, 0.002)).toBe("better by 0.21 [0.12, 0.3], p = 0.002, 24 scenarios");
    expect(verdictWords(turned(better), 0.0001)).toBe("worse by 0.21 [0.12, 0.3], p < 0.001, 24 scenarios");
  });

  it("says where chance explains it", () => {
    expect(verdictWords({ mean: -0.02, low: -0.1, high: 0.06, count: 8 }, 0.5312)).toBe(
      "chance explains the difference: −0.02 [−0.1, 0.06], p = 0.53, 8 scenarios",
    );
  });

  it("calls too few too few, and says how many it takes", () => {
    expect(verdictWords({ mean: 0.5, count: 1 }, 1)).toBe(
      "too few to tell: 1 scenario (it takes 6); the mean moved by +0.5",
    );
    expect(verdictWords({ mean: null, count: 0 }, null)).toBe("no scenario was measured both times");
  });

  it("takes an interval that touches 0 for chance", () => {
    expect(outcomeOf({ mean: 0.1, low: 0, high: 0.2, count: 9 })).toBe("same");
  });
});
