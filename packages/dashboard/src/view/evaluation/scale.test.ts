import { describe, expect, it } from "vitest";
import { scaleOf } from "./scale.ts";

describe("the scale of a table", () => {
  it("is 0 to 1 where rewards lie between, and where there are none", () => {
    expect(scaleOf([{ mean: 0.4, low: 0.2, high: 0.6, count: 5 }])).toMatchObject({ low: 0, high: 1 });
    expect(scaleOf([{ mean: null, count: 0 }])).toMatchObject({ low: 0, high: 1 });
  });

  it("reaches as far as intervals do", () => {
    const scale = scaleOf([
      { mean: -1, low: -3, high: 1, count: 5 },
      { mean: 5, count: 1 },
    ]);
    expect(scale).toMatchObject({ low: -3, high: 5 });
    expect([scale.share(-3), scale.share(1), scale.share(5)]).toEqual([0, 0.5, 1]);
  });

  it("has a middle where all values are one beyond 1", () => {
    expect(scaleOf([{ mean: 7, count: 2 }]).share(7)).toBe(0.5);
  });
});
