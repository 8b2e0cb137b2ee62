import { describe, expect, it } from "vitest";
import { ordered, type ScenarioChange } from "./scenario-order.ts";

function row(id: string, before: number | null, after: number | null): ScenarioChange {
  const change = before === null || after === null ? null : after - before;
  return { id, before: { mean: before, count: 4 }, after: { mean: after, count: 4 }, change, failed: 0 };
}

const rows = [row("task-10", 0.5, 0.9), row("task-2", 0.5, 0.2), row("New", null, 0.4), row("gone", 0.3, null)];
const ids = (list: ScenarioChange[]) => list.map(({ id }) => id);

describe("the order of scenarios", () => {
  it("puts the worst or the best change first, and what has none last", () => {
    expect(ids(ordered(rows, "change"))).toEqual(["task-2", "task-10", "gone", "New"]);
    expect(ids(ordered(rows, "-change"))).toEqual(["task-10", "task-2", "gone", "New"]);
  });

  it("orders by what they reach after", () => {
    expect(ids(ordered(rows, "after"))).toEqual(["task-2", "New", "task-10", "gone"]);
    expect(ids(ordered(rows, "-after"))).toEqual(["task-10", "New", "task-2", "gone"]);
  });

  it("reads numbers in names", () => {
    expect(ids(ordered(rows, "name"))).toEqual(["gone", "New", "task-2", "task-10"]);
  });

  it("keeps those that hold a text, in any case of letters, and leaves what it was given as it was", () => {
    expect(ids(ordered(rows, "name", " NEW"))).toEqual(["New"]);
    expect(ids(rows as ScenarioChange[])[0]).toBe("task-10");
  });
});
