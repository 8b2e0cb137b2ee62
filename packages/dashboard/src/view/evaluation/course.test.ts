import { describe, expect, it } from "vitest";
import type { EvaluationData, EvaluationsData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { beforeAfter, courseOf, failuresOf, overSteps, scenariosOf, setsOf } from "./course.ts";

function evaluation(step: number, over: Partial<EvaluationData> = {}): EvaluationData {
  return {
    step,
    set: "report",
    weightsOf: null,
    reward: { mean: 0.5, count: 8 },
    parts: {},
    numbers: {},
    failed: 0,
    lost: 0,
    failures: [],
    scenarios: [],
    ...over,
  };
}

const data = (...evaluations: EvaluationData[]): EvaluationsData => ({ evaluations, changes: [], problems: [] });

describe("the course of a set", () => {
  it("offers what is only looked at first", () => {
    expect(
      setsOf(data(evaluation(0, { set: "held-out" }), evaluation(0, { set: "selection" }), evaluation(0))),
    ).toEqual(["report", "selection", "held-out"]);
  });

  it("goes by steps, and takes the later of two at one", () => {
    const last = evaluation(4, { weightsOf: 2 });
    expect(courseOf(data(evaluation(4), evaluation(0), last, evaluation(1, { set: "selection" })), "report")).toEqual([
      evaluation(0),
      last,
    ]);
  });

  it("shows the scenarios of the only evaluation as what is now", () => {
    const only = evaluation(0, { scenarios: [{ id: "a", mean: 0.25, spread: 0, samples: 4, failed: 1 }] });
    expect(scenariosOf(data(only), "report")).toEqual([
      { id: "a", before: { mean: null, count: 0 }, after: { mean: 0.25, count: 4 }, change: null, failed: 1 },
    ]);
  });

  it("compares parts that came late or went", () => {
    const course = [
      evaluation(0, { parts: { kind: 0.2, old: 1 } }),
      evaluation(5, { parts: { kind: 0.6, late: null } }),
    ];
    expect(beforeAfter(course, "parts")).toEqual([
      { name: "kind", before: 0.2, after: 0.6 },
      { name: "old", before: 1, after: null },
      { name: "late", before: null, after: null },
    ]);
    expect(overSteps(course, "parts", "old")).toEqual({ name: "old", x: [0], y: [1] });
    expect(overSteps(course, "parts", "late").y).toEqual([Number.NaN]);
  });

  it("says each failure once, with the steps it was said at", () => {
    const course = [evaluation(0, { failures: ["threw", "threw"] }), evaluation(5, { failures: ["threw", "other"] })];
    expect(failuresOf(course)).toEqual([
      { message: "threw", steps: [0, 5] },
      { message: "other", steps: [5] },
    ]);
  });
});
