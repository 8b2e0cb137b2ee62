import { expect, it } from "vitest";
import { link, parsePlace } from "./place.ts";

it("comes back to any place it writes", () => {
  const path = ["run", "2~a b/ü%?#", "step", "3"];
  const query = { filter: "reward > 0.7 & a = 'b+c'", selected: "x,y%2Cz", tag: "日本" };
  expect(parsePlace(link(path, query))).toEqual({ path, query });
});

it("writes nothing that is empty", () => {
  expect(link(["runs"], { filter: "", sort: undefined })).toBe("#/runs");
});

it("reads addresses that somebody typed", () => {
  expect(parsePlace("")).toEqual({ path: [], query: {} });
  expect(parsePlace("#runs")).toEqual({ path: ["runs"], query: {} });
  expect(parsePlace("#/run/100%/?x=time")).toEqual({ path: ["run", "100%"], query: { x: "time" } });
});

it("has an address for names that hold half a character", () => {
  expect(link(["run", "a\ud800"])).toBe("#/run/a%EF%BF%BD");
});
