import { expect, it } from "vitest";
import { columnsFor, gridOf } from "./columns-for.ts";

const columns = [
  { id: "run", width: "1fr", always: true as const },
  { id: "model", width: "70px", from: 1381 },
  { id: "held", width: "208px", from: 1081, onCards: true as const },
  { id: "last", width: "88px", onCards: true as const },
];
const ids = (chosen: string[] | undefined, width: number) => columnsFor(columns, chosen, width).map(({ id }) => id);

it("shows as many columns as there is room for, or those that were chosen", () => {
  expect(ids(undefined, 1600)).toEqual(["run", "model", "held", "last"]);
  expect(ids(undefined, 1280)).toEqual(["run", "held", "last"]);
  expect(ids(undefined, 1000)).toEqual(["run", "last"]);
  expect(ids(["model"], 1000)).toEqual(["run", "model"]);
  expect(gridOf(columnsFor(columns, [], 1280))).toBe("20px 1fr minmax(90px, 1.4fr)");
});

it("has the same on each card of a narrow window, whatever was chosen", () => {
  expect(ids(["model"], 390)).toEqual(["run", "held", "last"]);
});
