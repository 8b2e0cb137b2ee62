import { expect, it } from "vitest";
import { compilePartial } from "./partial-schema.ts";

const text = { type: "string" };
const cat = { type: "object", properties: { name: text, lives: { type: "integer" } }, required: ["name", "lives"] };
const dog = { type: "object", properties: { name: text, tricks: { type: "array", items: text } }, required: ["name"] };

it.each<[string, object, unknown, string[]]>([
  ["what is left out is not missed", cat, {}, []],
  ["what is there must fit", cat, { lives: "nine" }, ["arguments.lives is not of type integer"]],
  ["one of several may still become the one", { oneOf: [cat, dog] }, { name: "Rex" }, []],
  [
    "none of several",
    { type: "object", properties: { pet: { oneOf: [cat, dog] } } },
    { pet: { name: 1 } },
    ["arguments.pet.name is not of type string", "arguments.pet must match a schema in anyOf"],
  ],
  ["what is asked for by a condition", { if: cat, else: false }, { name: "Tom" }, []],
  [
    "a property that is called as a keyword is",
    { properties: { not: text } },
    { not: 1 },
    ["arguments.not is not of type string"],
  ],
  [
    "references are followed",
    { $defs: { cat }, properties: { pet: { $ref: "#/$defs/cat" } } },
    { pet: { lives: "x" } },
    ["arguments.pet.lives is not of type integer"],
  ],
  ["one into what is left out says nothing", { not: cat, properties: { pet: { $ref: "#/not" } } }, { pet: 1 }, []],
])("%s", (_, schema, part, problems) => {
  expect(compilePartial(schema as Record<string, unknown>)(part)).toEqual(problems);
});
