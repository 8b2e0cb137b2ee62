import { describe, expect, it } from "vitest";
import { createRandom } from "../../random.ts";
import { accepts, randomText, schemaAutomaton } from "../../test-support/walk-automaton.ts";
import { compileSchema } from "../schema/compile-schema.ts";

type Schema = Record<string, unknown>;

const tree: Schema = {
  $defs: {
    node: {
      type: "object",
      properties: {
        name: { type: "string", maxLength: 3 },
        children: { type: "array", items: { $ref: "#/$defs/node" }, maxItems: 2 },
      },
      required: ["name", "children"],
    },
  },
  $ref: "#/$defs/node",
};

/** Each keyword that is held, with values that must be writable and values that must not. */
const held: Record<string, { schema: Schema; yes?: unknown[]; no?: unknown[] }> = {
  object: {
    schema: { type: "object", properties: { a: { type: "string" }, b: { type: "null" } }, required: ["b"] },
    yes: [{ a: "x", b: null }, { b: null }],
    no: [{ a: "x" }, { b: null, c: 1 }, {}],
  },
  "all optional": {
    schema: { type: "object", properties: { a: { type: "null" }, b: { type: "null" }, c: { type: "null" } } },
    yes: [{}, { a: null }, { c: null }, { a: null, c: null }, { a: null, b: null, c: null }],
  },
  "no arguments": { schema: { type: "object", properties: {} }, yes: [{}], no: [{ a: 1 }] },
  "required without a property": { schema: { type: "object", required: ["x"] }, yes: [{ x: "y" }, { x: 3 }], no: [{}] },
  "minProperties of required ones": {
    schema: {
      type: "object",
      properties: { a: { type: "null" } },
      required: ["a"],
      minProperties: 1,
      maxProperties: 1,
    },
    yes: [{ a: null }],
  },
  nested: {
    schema: {
      type: "object",
      properties: {
        a: { type: "object", properties: { b: { type: "array", items: { type: "boolean" } } }, required: ["b"] },
      },
      required: ["a"],
    },
    yes: [{ a: { b: [] } }, { a: { b: [true, false] } }],
    no: [{ a: {} }, { a: { b: [1] } }],
  },
  "a key that needs escapes": {
    schema: {
      type: "object",
      properties: { 'a"\\\n': { type: "null" }, "é🙂": { type: "null" } },
      required: ['a"\\\n', "é🙂"],
    },
    yes: [{ 'a"\\\n': null, "é🙂": null }],
  },
  enum: {
    schema: { enum: ["a", "ab", 'q"', "ü\n", 3, -1.5, true, null, { x: [1] }] },
    yes: ["a", "ab", 'q"', "ü\n", 3, -1.5, true, null, { x: [1] }],
    no: ["b", 4],
  },
  "enum and type": { schema: { type: "string", enum: ["a", 1, "bb"], minLength: 2 }, yes: ["bb"], no: ["a", 1] },
  const: { schema: { const: "only" }, yes: ["only"], no: ["else"] },
  "string length": {
    schema: { type: "string", minLength: 2, maxLength: 4 },
    yes: ["ab", "🙂🙂🙂🙂", '"\\', "\n\t\b\r"],
    no: ["a", "abcde", "🙂"],
  },
  "string longer than the limit": {
    schema: { type: "string", minLength: 200 },
    yes: ["x".repeat(200)],
    no: ["x".repeat(201)],
  },
  pattern: {
    schema: { type: "string", pattern: "^[A-Z]{2,3}-\\d+é?$" },
    yes: ["AB-1", "ABC-123é"],
    no: ["A-1", "AB-", "xAB-1"],
  },
  "pattern within": {
    schema: { type: "string", pattern: "o{2}", minLength: 3, maxLength: 6 },
    yes: ["foo", "oof", "xoooox"],
    no: ["oo", "fo f"],
  },
  "pattern with anchors inside": {
    schema: { type: "string", pattern: "^(a|b$)|c$", maxLength: 5 },
    yes: ["axx", "b", "xxc"],
    no: ["bx", "cx"],
  },
  "pattern of escapes": { schema: { type: "string", pattern: '^["\\\\\\n]{1,3}$' }, yes: ['"', '\\\n"'], no: ["n"] },
  "pattern of everything": {
    schema: { type: "string", pattern: "^.*$", maxLength: 3 },
    yes: ["", "aé🙂"],
    no: ["a\nb"],
  },
  "pattern that begins anywhere": {
    schema: { type: "string", pattern: "^(x|)*$", maxLength: 4 },
    yes: ["", "xx"],
    no: ["y"],
  },
  integer: { schema: { type: "integer" }, yes: [0, -1, 999999999999999], no: [1.5, "1"] },
  "integer bounds": {
    schema: { type: "integer", minimum: -12, maximum: 105 },
    yes: [-12, -9, 0, 7, 99, 100, 105],
    no: [-13, 106, 110, 1000],
  },
  "integer, bounds out": {
    schema: { type: "integer", exclusiveMinimum: 9, exclusiveMaximum: 12 },
    yes: [10, 11],
    no: [9, 12],
  },
  "integer, fractions as bounds": {
    schema: { type: "integer", minimum: -1.5, maximum: 2.5 },
    yes: [-1, 0, 2],
    no: [-2, 3],
  },
  "integer, far out": {
    schema: { type: "integer", minimum: 1_600_000_000_000 },
    yes: [1_600_000_000_000, 1_700_000_000_001],
    no: [1_599_999_999_999],
  },
  number: { schema: { type: "number" }, yes: [0, 0.5, -12.25, 1e21, 1e-7], no: ["1"] },
  "number bounds": {
    schema: { type: "number", minimum: -1.25, maximum: 37.5 },
    yes: [-1.25, -1.2, 0, 36.999999, 37.5],
    no: [-1.26, 37.51, 38, 100],
  },
  "number, bounds out": {
    schema: { type: "number", exclusiveMinimum: 0, exclusiveMaximum: 1 },
    yes: [0.1, 0.999999],
    no: [0, 1],
  },
  "number, bounds finer than it writes": {
    schema: { type: "number", minimum: 0.00000015, maximum: 0.0000025 },
    yes: [0.000001, 0.000002],
    no: [0.000003],
  },
  "number, between two of six digits": {
    schema: { type: "number", minimum: 0.12345671, exclusiveMaximum: 0.12345679 },
    yes: [0.12345671, 0.12345675],
    no: [0.1234567, 0.1234568, 0.12345679],
  },
  "number, between two of six digits, below zero": {
    schema: { type: "number", minimum: -2.00000009, maximum: -2.00000001 },
    yes: [-2.00000009, -2.00000002],
    no: [-2, -2.0000001],
  },
  "number, far out": { schema: { type: "number", minimum: 1e12 }, yes: [1e12, 1e12 + 7], no: [1e11] },
  "number below zero": { schema: { type: "number", maximum: -0.5 }, yes: [-0.5, -3, -0.75], no: [0, -0.4] },
  boolean: { schema: { type: "boolean" }, yes: [true, false], no: [null, "true"] },
  null: { schema: { type: "null" }, yes: [null] },
  "several types": { schema: { type: ["string", "null"], maxLength: 2 }, yes: ["ab", null], no: [1, "abc"] },
  "no type": { schema: {}, yes: ["a", 1, true, null] },
  "type by its keywords": { schema: { items: { type: "null" } }, yes: [[], [null]], no: [[1]] },
  array: {
    schema: { type: "array", items: { type: "integer", maximum: 9, minimum: 0 }, minItems: 1, maxItems: 3 },
    yes: [[1], [1, 2, 3]],
    no: [[], [1, 2, 3, 4]],
  },
  "array of more than the limit": {
    schema: { type: "array", items: { const: 1 }, minItems: 10 },
    yes: [Array(10).fill(1)],
    no: [Array(11).fill(1)],
  },
  "array within arrays": {
    schema: { type: "array", items: { type: "array", items: { const: 0 }, maxItems: 2 }, maxItems: 2 },
    yes: [[], [[]], [[0, 0], [0]]],
  },
  tuple: {
    schema: {
      type: "array",
      prefixItems: [{ const: "a" }, { type: "boolean" }],
      items: { type: "null" },
      minItems: 2,
      maxItems: 3,
    },
    yes: [
      ["a", true],
      ["a", false, null],
    ],
    no: [["a"], ["a", true, 1]],
  },
  "tuple and no more": {
    schema: { type: "array", prefixItems: [{ const: 1 }], items: false },
    yes: [[], [1]],
    no: [[1, 1]],
  },
  "one item, all different": {
    schema: { type: "array", items: { const: 1 }, uniqueItems: true, maxItems: 1 },
    yes: [[], [1]],
  },
  anyOf: {
    schema: { anyOf: [{ type: "string", maxLength: 2 }, { type: "integer" }, false] },
    yes: ["ab", 7],
    no: [true],
  },
  "anyOf with siblings": {
    schema: {
      type: "object",
      properties: { a: { type: "null" }, b: { type: "null" } },
      anyOf: [{ required: ["a"] }, { required: ["b"] }],
    },
    yes: [{ a: null }, { b: null }, { a: null, b: null }],
    no: [{}],
  },
  "oneOf by type": { schema: { oneOf: [{ type: "string" }, { type: "null" }] }, yes: ["a", null] },
  "oneOf by a property": {
    schema: {
      oneOf: [
        { type: "object", properties: { kind: { const: "a" }, x: { type: "null" } }, required: ["kind", "x"] },
        { type: "object", properties: { kind: { const: "b" } }, required: ["kind"] },
      ],
    },
    yes: [{ kind: "a", x: null }, { kind: "b" }],
    no: [{ kind: "a" }],
  },
  allOf: {
    schema: {
      allOf: [
        { type: "object", properties: { a: { type: "integer", minimum: 3 } } },
        { properties: { a: { maximum: 5 }, b: { type: "null" } }, required: ["a"] },
      ],
    },
    yes: [{ a: 3 }, { a: 5, b: null }],
    no: [{ a: 6 }, { b: null }],
  },
  $ref: {
    schema: {
      $defs: { s: { type: "string", maxLength: 3 } },
      type: "array",
      items: { $ref: "#/$defs/s", minLength: 2 },
    },
    yes: [["ab", "abc"]],
    no: [["a"]],
  },
  "draft 7": {
    schema: {
      $schema: "http://json-schema.org/draft-07/schema#",
      definitions: { "a/b": { type: "null" } },
      type: "array",
      items: [{ $ref: "#/definitions/a~1b" }],
      additionalItems: false,
    },
    yes: [[null], []],
    no: [[null, null]],
  },
  "a tree": {
    schema: tree,
    yes: [
      { name: "a", children: [] },
      { name: "a", children: [{ name: "b", children: [] }] },
    ],
  },
  itself: {
    schema: { type: "object", properties: { next: { $ref: "#" }, v: { type: "null" } }, required: ["v"] },
    yes: [{ v: null }, { next: { v: null }, v: null }],
  },
  notes: {
    schema: {
      type: "string",
      title: "t",
      description: "d",
      default: 1,
      examples: [2],
      format: "email",
      "x-note": {},
      maxLength: 2,
    },
    yes: ["a"],
  },
};

describe("a schema as an automaton", () => {
  it.each(Object.entries(held))("%s: whatever it writes fits, and what fits in plain form can be written", (_, one) => {
    const automaton = schemaAutomaton(one.schema);
    const check = compileSchema(one.schema, "the schema");
    const { next } = createRandom(7);
    for (let i = 0; i < 200; i++) {
      const text = randomText(automaton, next);
      expect(check(JSON.parse(text)), text).toEqual([]);
    }
    for (const value of one.yes ?? []) {
      expect(check(value)).toEqual([]);
      expect(accepts(automaton, JSON.stringify(value)), JSON.stringify(value)).toBe(true);
    }
    for (const value of one.no ?? [])
      expect(accepts(automaton, JSON.stringify(value)), JSON.stringify(value)).toBe(false);
  });

  it("writes nothing but valid JSON: no raw control characters, no halves of characters, no spaces but after : and ,", () => {
    const automaton = schemaAutomaton({ type: "object", properties: { a: { type: "string" } }, required: ["a"] });
    for (const bad of [
      '{"a":"\n"}',
      '{"a":"\\u0041"}',
      '{ "a":"x"}',
      '{"a" :"x"}',
      '{"a":  "x"}',
      '{"a":"x" }',
      '{"a":"\\x"}',
    ]) {
      expect(accepts(automaton, bad), bad).toBe(false);
    }
    for (const good of ['{"a":"x"}', '{"a": "x"}', '{"a": "\\n\\"\\\\é🙂"}'])
      expect(accepts(automaton, good), good).toBe(true);
  });
});

const refused: Record<string, Schema> = {
  '"not"': { not: { type: "string" } },
  '"if"': { type: "object", properties: {}, if: {} },
  '"patternProperties"': { type: "object", patternProperties: { "^x": {} } },
  '"propertyNames"': { type: "object", propertyNames: {} },
  '"dependentRequired"': { type: "object", dependentRequired: {} },
  '"contains"': { type: "array", contains: {} },
  '"uniqueItems"': { type: "array", items: { type: "string" }, uniqueItems: true },
  '"multipleOf"': { type: "integer", multipleOf: 5 },
  '"minProperties"': { type: "object", properties: { a: {} }, minProperties: 1 },
  '"maxProperties"': { type: "object", properties: { a: {}, b: {} }, maxProperties: 1 },
  '"additionalProperties" without "properties"': { type: "object", additionalProperties: { type: "string" } },
  '"oneOf" whose alternatives may both fit': { oneOf: [{ type: "integer" }, { type: "number" }] },
  '"pattern" that is said twice': { allOf: [{ type: "string", pattern: "a" }, { pattern: "b" }] },
  "numbers from 1e-20 to 2e-20, which take more than 15 digits": { type: "number", minimum: 1e-20, maximum: 2e-20 },
  "numbers from 100000000000000000000 to ∞, which take more": { type: "integer", minimum: 1e20 },
  'the pattern "^(?!a)b", since it looks ahead': { type: "string", pattern: "^(?!a)b" },
  'the pattern "(", since': { type: "string", pattern: "(" },
  "pattern with \\b": { type: "string", pattern: "a\\b" },
  'the reference "#/$defs/gone"': { $ref: "#/$defs/gone" },
};

describe("what cannot be held", () => {
  it.each(Object.entries(refused))("%s is refused by name and place", (name, inner) => {
    const schema = { type: "object", properties: { deep: inner }, required: ["deep"] };
    let message = "";
    try {
      schemaAutomaton(schema);
    } catch (error) {
      message = (error as Error).message;
    }
    expect(message).toContain(`constrain cannot hold ${name}`);
    expect(message).toContain("the schema, at #/properties/deep");
  });

  it("bounds between which nothing lies are no matter of digits", () => {
    for (const empty of [
      { type: "number", minimum: 2, maximum: 1 },
      { type: "number", minimum: 1, exclusiveMaximum: 1 },
      { type: "integer", minimum: 0.2, maximum: 0.8 },
      { type: "integer", exclusiveMinimum: 1, exclusiveMaximum: 2 },
    ]) {
      const schema = { type: "object", properties: { deep: empty } };
      expect(accepts(schemaAutomaton(schema), "{}")).toBe(true);
    }
  });

  it("a pattern longer than strings may be says so", () => {
    expect(() => schemaAutomaton({ type: "string", pattern: "^x{200}$" })).toThrow(
      /No string of at most 128 characters/,
    );
  });
});
