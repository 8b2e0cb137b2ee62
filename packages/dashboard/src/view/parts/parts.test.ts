import { expect, it } from "vitest";
import { sparkPath } from "./spark-path.ts";
import { tagsOf } from "./tags.ts";

it("draws a small curve within its box", () => {
  expect(sparkPath([0, 1, 0.5], 10, 6)).toBe("M1 5L5 1L9 3");
});

it("leaves gaps open, and shows a point alone as a dash", () => {
  expect(sparkPath([0, null, 1], 10, 6)).toBe("M1 5h1M9 1h1");
  expect(sparkPath([0, 1, Number.NaN, 1], 11, 6)).toBe("M1 5L4 1M10 1h1");
});

it("draws what does not change in the middle, and nothing where there is nothing", () => {
  expect(sparkPath([2, 2], 10, 6)).toBe("M1 3L9 3");
  expect(sparkPath([3], 10, 6)).toBe("M5 3h1");
  expect(sparkPath([null], 10, 6)).toBe("");
});

it("reads tags as they are typed, each once", () => {
  expect(tagsOf(" a, b ,,a,  c d ")).toEqual(["a", "b", "c d"]);
  expect(tagsOf("")).toEqual([]);
});
