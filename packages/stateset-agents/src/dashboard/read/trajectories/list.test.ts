import { describe, expect, it } from "vitest";
import { listTrajectories } from "./list.ts";
import { type RowFacts, rowFacts } from "./row-facts.ts";
import type { StepFiles } from "./step-files.ts";

const row = (step: number): RowFacts =>
  rowFacts({ id: `of-${step}`, messages: [], chains: [], ended: "done" } as never, false);

/** Thirty conversations a step. */
const filesOf = (steps: readonly number[]): StepFiles =>
  ({
    steps: () => steps,
    file: (_: string, __: string, step: number) => ({
      lines: Array.from({ length: 30 }, () => ({ row: row(step) })),
      problems: [],
    }),
  }) as never;
const place = { key: "r", folder: 0, dir: "/r" };
const pageOf = async (steps: readonly number[], query: Record<string, string>) => {
  const { rows, next } = await listTrajectories(filesOf(steps), place, query);
  return { steps: [...new Set(rows.map(({ step }) => step))], next };
};

describe("a page after a step that a resumed run cut away since", () => {
  it("goes on with the step after it, whichever way the list goes", async () => {
    const { steps, next } = await pageOf([1, 2, 3, 4], {});
    expect(steps).toEqual([1, 2]);
    expect((await pageOf([1, 3, 4], { cursor: next! })).steps).toEqual([3, 4]);
    const back = await pageOf([1, 2, 3, 4], { sort: "-step" });
    expect(back.steps).toEqual([4, 3]);
    expect((await pageOf([1, 2, 4], { sort: "-step", cursor: back.next! })).steps).toEqual([2, 1]);
  });

  it("is the end where none follows", async () => {
    const { next } = await pageOf([1, 2, 3], {});
    expect(await pageOf([1], { cursor: next! })).toEqual({ steps: [], next: null });
  });
});
