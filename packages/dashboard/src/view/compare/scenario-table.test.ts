import { describe, expect, it } from "vitest";
import { orderedScenarios, scenarioTable, tally, unlikeBase } from "./scenario-table.ts";

const scenarios = [
  { id: "far", values: [0.1, 0.9, 0.2] },
  { id: "down", values: [0.8, 0.3, 0.8] },
  { id: "only-base", values: [0.5, null, null] },
  { id: "no-base", values: [null, 0.5, 0.7] },
  { id: "level", values: [0.4, 0.4, 0.4] },
];
const table = scenarioTable(scenarios, 0);
const ids = (order: Parameters<typeof orderedScenarios>[1], text?: string) =>
  orderedScenarios(table, order, text).map(({ id }) => id);

describe("scenarios of several runs", () => {
  it("holds every run against the base", () => {
    expect(table[0]!.differences).toEqual([null, 0.8, 0.1]);
    expect(table[3]!.differences).toEqual([null, null, null]);
    expect(scenarioTable(scenarios, 2)[1]!.differences).toEqual([0, -0.5, null]);
  });

  it("takes no difference between runs that were not measured alike", () => {
    const pair = { pValue: null, verdict: "unknown" as const, difference: { mean: null, count: 0 } };
    const runs = ["a", "b", "c"].map((key) => ({ key, id: key }));
    const pairs = [
      { ...pair, a: "a", b: "b", unlike: "rewards" as const },
      { ...pair, a: "a", b: "c", unlike: null },
    ];
    const unlike = unlikeBase({ runs, pairs }, "a");
    expect(unlike).toEqual([null, "rewards", null]);
    expect(scenarioTable(scenarios, 0, unlike)[0]!.differences).toEqual([null, null, 0.1]);
  });

  it("puts those first that got better, or worse, and those without a difference last", () => {
    expect(ids("better")).toEqual(["far", "down", "level", "no-base", "only-base"]);
    expect(ids("worse")).toEqual(["down", "level", "far", "no-base", "only-base"]);
    expect(ids("apart")).toEqual(scenarios.map(({ id }) => id));
    expect(ids("name", "LE")).toEqual(["level"]);
  });

  it("counts what was won and lost", () => {
    expect(tally(table, 1)).toEqual({ better: 1, worse: 1, same: 1 });
    expect(tally(table, 0)).toEqual({ better: 0, worse: 0, same: 0 });
  });
});
