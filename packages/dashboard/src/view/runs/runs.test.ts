import { expect, it } from "vitest";
import type { RunRow } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { lines, patched } from "./grouped.ts";
import { placeIn } from "./place-in.ts";

const row = (key: string, group?: string, reward: number | null = null) =>
  ({ key, reward, ...(group !== undefined && { group }) }) as RunRow;

it("puts rows under a heading for each value, and hides those of a closed one", () => {
  const rows = [row("a", "x", 1), row("b", "y"), row("c", "x", 0)];
  const shown = lines(rows, true, new Set(["y"])).map((line) =>
    line.kind === "run" ? line.row.key : [line.value, line.count, line.reward],
  );
  expect(shown).toEqual([["x", 2, 0.5], "a", "c", ["y", 1, null]]);
  expect(lines(rows, false, new Set())).toHaveLength(3);
});

it("takes in what changed, and says when a run is new", () => {
  const { rows, stale } = patched([row("a", "x", 1), row("b")], { rows: [row("a", undefined, 2)], gone: ["b"] });
  expect(rows).toEqual([row("a", "x", 2)]);
  expect(stale).toBe(false);
  expect(patched([], { rows: [row("new")], gone: [] }).stale).toBe(true);
});

it("finds the place an error names", () => {
  expect(placeIn('filter, column 8: expected a value after >, found "the end"', "reward >")).toBe(7);
  expect(placeIn("filter, column 99: x", "abc")).toBe(3);
  expect(placeIn("something else", "abc")).toBeUndefined();
});
