import { describe, expect, it } from "vitest";
import { compileSchema } from "./compile-schema.ts";

const check = (schema: unknown, value: unknown) => compileSchema(schema, "f.parameters")(value);

describe("a schema", () => {
  const order = {
    type: "object",
    properties: {
      id: { type: "string", pattern: "^\\d{4}$" },
      items: { type: "array", items: { $ref: "#/$defs/item" }, minItems: 1 },
      note: { anyOf: [{ type: "string", maxLength: 3 }, { type: "null" }] },
    },
    required: ["id"],
    additionalProperties: false,
    $defs: { item: { type: "object", properties: { sku: { enum: ["a", "b"] } }, required: ["sku"] } },
  };

  it.each([
    [{ id: "4821" }, []],
    [{ id: "4821", items: [{ sku: "a" }], note: null }, []],
    [{}, ["arguments.id is missing"]],
    [{ id: 4821 }, ["arguments.id is not of type string"]],
    [{ id: "48" }, ['arguments.id must match pattern "^\\d{4}$"']],
    [{ id: "4821", items: [{ sku: "c" }] }, ['arguments.items[0].sku is not one of ["a","b"]']],
    [{ id: "4821", other: 1 }, ["arguments.other is not known"]],
    [[], ["arguments is not of type object"]],
    [7, ["arguments is not of type object"]],
  ])("%j: %j", (value, problems) => {
    expect(check(order, value)).toEqual(problems);
  });

  it("is of draft 2020-12 unless it says draft 7", () => {
    const pair = { prefixItems: [{ type: "string" }], items: false };
    expect(check(pair, ["a"])).toEqual([]);
    expect(check(pair, ["a", 1])).not.toEqual([]);
    const old = {
      $schema: "http://json-schema.org/draft-07/schema#",
      items: [{ type: "string" }],
      additionalItems: false,
    };
    expect(check(old, ["a"])).toEqual([]);
    expect(check(old, ["a", 1])).not.toEqual([]);
  });

  it("may hold itself where values end", () => {
    const tree = {
      type: "object",
      properties: { left: { $ref: "#" }, right: { $ref: "#" } },
      additionalProperties: false,
    };
    expect(check(tree, { left: { right: {} } })).toEqual([]);
    expect(check(tree, { left: { up: 1 } })).toEqual(["arguments.left.up is not known"]);
  });

  it("says how many more there are, where a value has many faults", () => {
    const problems = check(
      { items: { type: "string" } },
      Array.from({ length: 1000 }, () => 1),
    );
    expect(problems).toHaveLength(9);
    expect(problems.at(-1)).toBe("and 992 more");
  });

  it("with the same $id as another is its own", () => {
    const text = { $id: "https://shop/x", type: "string" };
    const number = { $id: "https://shop/x", type: "number" };
    expect([check(text, "a"), check(number, "a"), check(text, 1)]).toEqual([
      [],
      ["arguments is not of type number"],
      ["arguments is not of type string"],
    ]);
  });
});

describe("a stranger's schema costs an error, not the process", () => {
  const cyclic: Record<string, unknown> = {};
  cyclic.self = cyclic;
  const deep = Array.from({ length: 100 }).reduce<object>((inner) => ({ properties: { a: inner } }), {});
  it.each<[string, unknown, string]>([
    ["nothing", undefined, "it is no object"],
    ["a list", [], "it is no object"],
    ["a type that is none", { type: "text" }, "type"],
    ["one that refers to itself without end", { $ref: "#" }, "refers to itself without end"],
    [
      "a ring of references",
      { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } } },
      "refers to itself without end",
    ],
    ["a reference to another document", { $ref: "https://elsewhere/x.json" }, "resolve reference"],
    ["a reference to nothing", { $ref: "#/$defs/none" }, "resolve reference"],
    ["ten megabytes", { description: "x".repeat(10 << 20) }, "characters"],
    [
      "references by the thousand",
      { $defs: { a: {} }, properties: { a: { anyOf: Array(1001).fill({ $ref: "#/$defs/a" }) }, $ref: {} } },
      "it has 1001 references, and 1000 are the limit",
    ],
    ["one that holds itself", cyclic, "holds itself"],
    ["a hundred levels", deep, "nested more than 64 deep"],
    ["a pattern that looks ahead", { pattern: "(?=a)b" }, "looks ahead"],
    ["a pattern that is none", { pattern: "(" }, "Unterminated group"],
  ])("%s", (_, schema, reason) => {
    expect(() => compileSchema(schema, "f.parameters")).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringContaining(reason) }),
    );
  });

  const twice = (to: string) => ({ allOf: [{ $ref: to }, { $ref: to }] });
  const doubling = (at: string) =>
    Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`d${i}`, i < 39 ? twice(`#/${at}/d${i + 1}`) : {}]));
  const big = { allOf: Array.from({ length: 500 }, (_, minLength) => ({ minLength })) };
  const named = ["L", "Lu", "Ll", "M", "N", "P", "S", "Z", "C", "Nd", "Sm", "Sc", "Lo"];

  it.each<[string, unknown]>([
    ["references that double forty times", { $ref: "#/$defs/d0", $defs: doubling("$defs") }],
    ["properties of characters by the dozen", { allOf: named.map((one) => ({ pattern: `\\p{gc=${one}}` })) }],
  ])("%s", (_, schema) => {
    expect(() => compileSchema(schema, "f.parameters")).toThrow(/takes too long to check/);
  });

  const nested = Array.from({ length: 50 }).reduce<object>((inner) => ({ a: inner }), {});
  const down = { properties: { a: { $ref: "#" } } };
  const long = "a".repeat(500_000);
  it.each<[string, unknown, unknown]>([
    ["doubles with every level of the value", { allOf: [down, down] }, nested],
    ["doubles where no schema is looked for", { properties: { a: { $ref: "#/x/d0" } }, x: doubling("x") }, { a: 1 }],
    ["has hundreds of rules for each of a million values", { items: big }, Array(1_000_000).fill("a")],
    ["has a pattern of thousands of places", { pattern: "(?:a?){3000}b" }, long],
    ["has patterns by the hundred", { allOf: Array(500).fill({ pattern: "(?:a|b)*c" }) }, long],
  ])("is an error of the value where the schema %s", (_, schema, value) => {
    expect(check(schema, value)).toEqual(["arguments cannot be checked: it takes too long to check"]);
  });

  it("is compiled once for all references to it", () => {
    const many = { $defs: { big }, allOf: Array(1000).fill({ $ref: "#/$defs/big" }) };
    expect(check(many, "x".repeat(500))).toEqual([]);
    expect(check(many, "x")).toHaveLength(9);
  });

  it("tells items apart in time proportional to them", () => {
    const items = Array.from({ length: 50_000 }, (_, i) => ({ i, of: [i] }));
    expect(check({ uniqueItems: true }, items)).toEqual([]);
    const alike = [
      { a: 1, b: [2] },
      { b: [2], a: 1 },
    ];
    expect(check({ uniqueItems: true }, alike)).toEqual(["arguments must not have two items that are alike"]);
    expect(check({ uniqueItems: false }, alike)).toEqual([]);
    expect(check({ uniqueItems: true }, [1, "1", true, null, [1], { 0: 1 }])).toEqual([]);
  });

  it("may have a property that is called $ref", () => {
    const own = { type: "object", properties: { $ref: { type: "string" } }, additionalProperties: false };
    expect(check(own, { $ref: "x" })).toEqual([]);
    expect(check(own, { $ref: 1 })).toEqual(["arguments.$ref is not of type string"]);
  });

  it("also where its pattern would backtrack for ever", () => {
    expect(check({ type: "string", pattern: "^(a+)+$" }, `${"a".repeat(5000)}!`)).toHaveLength(1);
    expect(check({ patternProperties: { "^(a|a)*$": false } }, { [`${"a".repeat(2000)}!`]: 1 })).toEqual([]);
  });
});
