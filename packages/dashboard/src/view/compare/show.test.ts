import { describe, expect, it } from "vitest";
import type { CompareSeriesHead, Packed } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { baseOf, familySeries, shownOf } from "./show.ts";

const run = (key: string) => ({ key, id: key, seed: 1, algorithm: "grpo" });

describe("what curves show", () => {
  it("falls back where the address says nonsense", () => {
    expect([shownOf("seeds"), shownOf("difference"), shownOf("all"), shownOf(undefined)]).toEqual([
      "seeds",
      "difference",
      "runs",
      "runs",
    ]);
    expect([baseOf("b", [run("a"), run("b")]), baseOf("gone", [run("a")]), baseOf("a", [])]).toEqual(["b", "a", ""]);
  });

  it("gives a family the colour of its first run, and its interval where it has one", () => {
    const packed: Packed<CompareSeriesHead> = {
      head: {
        metric: "reward",
        capped: false,
        families: [
          { name: "grpo (2 seeds)", runs: ["b", "c"], x: "0.x" },
          { name: "ppo", runs: ["a"], x: "0.x" },
        ],
      },
      columns: {
        "0.x": Float64Array.of(1, 2),
        "0.mean": Float32Array.of(0.5, 0.75),
        "0.low": Float32Array.of(Number.NaN, 0.5),
        "0.high": Float32Array.of(Number.NaN, 1),
        "1.mean": Float32Array.of(0.25, 0.125),
      },
    };
    const [family, alone] = familySeries(
      packed,
      new Map([
        ["a", 0],
        ["b", 1],
        ["c", 2],
      ]),
    );
    expect(family).toMatchObject({ name: "grpo (2 seeds)", colour: 1, high: Float32Array.of(Number.NaN, 1) });
    expect(alone).toEqual({ name: "a", colour: 0, x: Float64Array.of(1, 2), y: Float32Array.of(0.25, 0.125) });
  });
});
