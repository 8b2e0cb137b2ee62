import { describe, expect, it } from "vitest";
import { boundedRange } from "./bounded-range.ts";
import { chartColumns, nearest } from "./chart-data.ts";
import { smooth } from "./smooth.ts";
import { summary } from "./summary.ts";

describe("columns of a chart", () => {
  it("puts curves over one axis: a gap where a value is no number, nothing where a curve has no point", () => {
    const { x, columns } = chartColumns([
      { name: "a", x: [1, 2, 4], y: [10, Number.NaN, 40] },
      { name: "b", x: [2, 3], y: [5, 6] },
    ]);
    expect(x).toEqual([1, 2, 3, 4]);
    expect(columns.map(({ series, role, values }) => [series, role, values])).toEqual([
      [0, "line", [10, null, undefined, 40]],
      [1, "line", [undefined, 5, 6, undefined]],
    ]);
  });

  it("draws curves that share their places as those that have their own", () => {
    const shared = [1, 2, 2, 4];
    const [a, b] = [
      [10, Number.NaN, 30, 40],
      [5, 6, 7, 8],
    ];
    const drawn = (own: () => number[]) =>
      chartColumns([
        { name: "a", x: own(), y: a! },
        { name: "b", x: own(), y: b! },
      ]).columns.map(({ values }) => values);
    expect(drawn(() => shared)).toEqual([
      [10, null, 30, 40],
      [5, 6, 7, 8],
    ]);
    shared[2] = 3;
    expect(drawn(() => shared)).toEqual(drawn(() => [...shared]));
  });

  it("keeps the raw line behind the smoothed one, and smooths the band with it", () => {
    const { columns } = chartColumns([{ name: "a", x: [1, 2], y: [0, 2], low: [-1, 1], high: [1, 3] }], {
      smoothing: 0.5,
    });
    const of = (role: string) => columns.find((column) => column.role === role)?.values;
    expect(columns.map(({ role }) => role)).toEqual(["low", "high", "raw", "line"]);
    expect(of("raw")).toEqual([0, 2]);
    expect(of("line")![1]).toBeCloseTo(4 / 3);
    expect(of("high")![1]! - of("line")![1]!).toBeCloseTo(1);
  });

  it("never smooths single points", () => {
    const { columns } = chartColumns(
      [{ name: "e", kind: "points", x: [0, 4], y: [0, 1], low: [0, 0.5], high: [0.5, 1] }],
      {
        smoothing: 0.9,
      },
    );
    expect(columns.map(({ role, values }) => [role, values])).toEqual([
      ["low", [0, 0.5]],
      ["high", [0.5, 1]],
      ["points", [0, 1]],
    ]);
  });

  it("leaves out what has no logarithm", () => {
    expect(chartColumns([{ name: "a", x: [1, 2, 3], y: [1, 0, -1] }], { log: true }).columns[0]!.values).toEqual([
      1,
      null,
      null,
    ]);
  });

  it("stacks what adds above and what takes away below", () => {
    const { columns } = chartColumns(
      [
        { name: "a", x: [1, 2], y: [1, 2] },
        { name: "b", x: [1, 2], y: [-1, 3] },
        { name: "c", x: [1], y: [4] },
      ],
      { stack: true },
    );
    expect(columns.map(({ role, values }) => [role, values])).toEqual([
      ["base", [0, 0]],
      ["top", [1, 2]],
      ["base", [0, 2]],
      ["top", [-1, 5]],
      ["base", [1, undefined]],
      ["top", [5, undefined]],
    ]);
  });

  it("leaves a gap in a stack where a part is no number, for it and for what would lie on it", () => {
    const { columns } = chartColumns(
      [
        { name: "a", x: [1, 2], y: [1, 1] },
        { name: "b", x: [1, 2], y: [Number.NaN, 2] },
        { name: "c", x: [1, 2], y: [3, 3] },
      ],
      { stack: true },
    );
    expect(columns.filter(({ role }) => role === "top").map(({ values }) => values)).toEqual([
      [1, 1],
      [null, 3],
      [null, 6],
    ]);
  });
});

it("smooths what is stacked before it is stacked", () => {
  const [, top] = chartColumns([{ name: "a", x: [1, 2], y: [0, 2] }], { stack: true, smoothing: 0.5 }).columns;
  expect(top!.values[1]).toBeCloseTo(4 / 3);
});

it("ends an axis where values end, unless one lies beyond", () => {
  const range = (...values: (number | null)[]) => boundedRange([0, 1], values);
  expect(range(0, 1, null)).toEqual([-0.03, 1.03]);
  expect(range(0.4, 0.5)).toEqual([0.37, 0.53]);
  expect(range(0.12, 0.7)).toEqual([-0.03, expect.closeTo(0.758)]);
  expect(range(0.5, 1.2)).toBeUndefined();
  // A band is shown as far as the bounds.
  expect(boundedRange([0, 1], [0.4, 0.5], [0.3, 0.7])).toEqual([0.26, 0.74]);
  expect(boundedRange([0, 1], [0.4, 0.5], [-3, 4])).toEqual([-0.03, 1.03]);
  expect(range(null)).toBeUndefined();
});

it("finds the nearest of rising numbers", () => {
  expect([0, 1.4, 1.6, 9].map((x) => nearest([1, 2, 5], x))).toEqual([0, 0, 1, 2]);
  expect(nearest([], 1)).toBe(-1);
  expect(nearest([3], Number.NaN)).toBe(-1);
});

describe("smoothing", () => {
  it("begins at the first value and leaves what is constant alone", () => {
    expect([...smooth([2, 2, 2], 0.9)].map((value) => Number(value.toFixed(12)))).toEqual([2, 2, 2]);
    expect(smooth([5, 0], 0.9)[0]).toBeCloseTo(5);
  });

  it("goes on over what is no number", () => {
    const [first, gap, last] = smooth([1, Number.NaN, 1], 0.5);
    expect([first, gap, last]).toEqual([1, Number.NaN, 1]);
  });
});

it("says a chart in words", () => {
  const series = [
    { name: "reward", x: [1, 2, 3], y: [0.25, Number.NaN, 0.5] },
    { name: "late", x: [2], y: [7] },
    { name: "never", x: [], y: [] },
  ];
  expect(summary("Reward", "step", series)).toBe(
    "Reward. reward goes from 0.25 at step 1 to 0.5 at step 3, between 0.25 and 0.5; late is 7 at step 2; never has no values.",
  );
  expect(summary("Reward", "step", [])).toBe("Reward. No data.");
});
