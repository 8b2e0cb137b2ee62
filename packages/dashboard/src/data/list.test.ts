import { expect, it } from "vitest";
import { joinNames, splitNames } from "./list.ts";

it("gives back any names", () => {
  const names = ["a", "b,c", "50%", "%2C", "%25,", "2~x"];
  expect(splitNames(joinNames(names))).toEqual(names);
});

it("reads nothing from nothing", () => {
  expect(splitNames(undefined)).toEqual([]);
  expect(splitNames("")).toEqual([]);
});
