import { describe, expect, it } from "vitest";
import { orderedPairs, pairSaid } from "./pair-words.ts";

const pair = (mean: number | null, low?: number, high?: number, count = 12) => ({
  a: "one",
  b: "two",
  unlike: null,
  difference: low === undefined || high === undefined ? { mean, count } : { mean, low, high, count },
  pValue: 0.01,
  verdict: "same" as const,
});

describe("two runs", () => {
  it("names the better one first", () => {
    expect(pairSaid(pair(0.2, 0.1, 0.3))).toMatchObject({ subject: "two", than: "one", outcome: "better" });
    const other = pairSaid(pair(-0.2, -0.3, -0.1));
    expect(other).toMatchObject({ subject: "one", than: "two", outcome: "better" });
    expect(other.words).toBe("better by 0.2 [0.1, 0.3], p = 0.01, 12 scenarios");
  });

  it("calls neither better where they were not measured alike", () => {
    const said = { ...pair(null, undefined, undefined, 0), unlike: "rewards" as const };
    expect(pairSaid(said)).toMatchObject({ words: "measured by different rewards", outcome: "unknown" });
    expect(pairSaid({ ...said, unlike: "scenarios" }).words).toBe("measured on different scenarios");
  });

  it("says where chance explains it and where they are too few", () => {
    expect(pairSaid(pair(0.02, -0.1, 0.1)).words).toMatch(/^chance explains the difference: \+0\.02/);
    expect(pairSaid(pair(0.5, undefined, undefined, 2)).words).toMatch(/^too few to tell/);
  });

  it("puts what tells something first", () => {
    const [unknown, same, small, large] = [pair(3), pair(0.9, -1, 2), pair(0.2, 0.1, 0.3), pair(-0.4, -0.5, -0.3)];
    expect(orderedPairs([unknown, same, small, large])).toEqual([large, small, same, unknown]);
  });
});
