import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createRandom } from "../../random.ts";
import { accepts, randomText, schemaAutomaton } from "../../test-support/walk-automaton.ts";
import { compileSchema } from "../schema/compile-schema.ts";

type Schema = Record<string, unknown>;

describe("any schema as an automaton", () => {
  it("accepts random documents of random schemas, and writes only documents that fit", () => {
    fc.assert(
      fc.property(described(), fc.integer({ min: 0, max: 2 ** 31 }), ({ schema, documents }, seed) => {
        const automaton = schemaAutomaton(schema);
        const check = compileSchema(schema, "the schema");
        for (const document of documents) expect(accepts(automaton, JSON.stringify(document))).toBe(true);
        const { next } = createRandom(seed);
        for (let i = 0; i < 10; i++) {
          const text = randomText(automaton, next);
          expect(check(JSON.parse(text)), text).toEqual([]);
        }
      }),
      { numRuns: 150, seed: 15 },
    );
  });

  it("holds bounds of numbers wherever they lie", () => {
    const bound = fc.oneof(fc.integer({ min: -2000, max: 2000 }), fc.double({ min: -50, max: 50, noNaN: true }));
    fc.assert(
      fc.property(
        bound,
        bound,
        fc.boolean(),
        fc.boolean(),
        fc.integer({ min: 0, max: 2 ** 31 }),
        (a, b, exclusive, whole, seed) => {
          const [low, high] = [Math.min(a, b), Math.max(a, b) + 1];
          const bounds = exclusive
            ? { exclusiveMinimum: low, exclusiveMaximum: high }
            : { minimum: low, maximum: high };
          const schema = { type: whole ? "integer" : "number", ...bounds };
          if (whole && Math.floor(high) - Math.ceil(low) < 2) return;
          const check = compileSchema(schema, "the schema");
          const automaton = schemaAutomaton(schema);
          const { next } = createRandom(seed);
          for (let i = 0; i < 20; i++) {
            const text = randomText(automaton, next);
            expect(check(JSON.parse(text)), text).toEqual([]);
          }
          for (let value = Math.ceil(low) + 1; value < high; value += 37)
            expect(accepts(automaton, String(value))).toBe(true);
        },
      ),
      { numRuns: 300, seed: 15 },
    );
  });
});

/** A schema with documents that fit it, in plain form. */
function described(): fc.Arbitrary<{ schema: Schema; documents: unknown[] }> {
  const { any } = fc.letrec<{ any: [Schema, unknown[]] }>((tie) => {
    const leaf = fc.oneof(
      fc
        .tuple(
          fc.integer({ min: 0, max: 3 }),
          fc.array(fc.string({ unit: "grapheme", minLength: 3, maxLength: 6 }), { minLength: 1, maxLength: 3 }),
        )
        .map(([minLength, values]): [Schema, unknown[]] => [
          { type: "string", minLength },
          values.map((value) =>
            [...value]
              .filter((char) => char >= " ")
              .join("")
              .padEnd(3, "-"),
          ),
        ]),
      fc
        .array(fc.integer({ min: -500, max: 500 }), { minLength: 1, maxLength: 3 })
        .map((values): [Schema, unknown[]] => [
          { type: "integer", minimum: Math.min(...values), maximum: Math.max(...values) },
          values,
        ]),
      fc
        .uniqueArray(fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null)), {
          minLength: 1,
          maxLength: 4,
        })
        .map((values): [Schema, unknown[]] => [{ enum: values }, values]),
      fc.constant<[Schema, unknown[]]>([{ type: "boolean" }, [true, false]]),
    );
    const object = fc
      .uniqueArray(
        fc.tuple(
          fc.string({ minLength: 1, maxLength: 4 }),
          tie("any") as fc.Arbitrary<[Schema, unknown[]]>,
          fc.boolean(),
        ),
        {
          maxLength: 3,
          selector: ([name]) => name,
        },
      )
      .filter((all) => all.every(([name]) => !/^\d+$/.test(name) && name !== "__proto__"))
      .map((all): [Schema, unknown[]] => [
        {
          type: "object",
          properties: Object.fromEntries(all.map(([name, [schema]]) => [name, schema])),
          required: all.filter(([, , must]) => must).map(([name]) => name),
        },
        [true, false].map((every) =>
          Object.fromEntries(all.filter(([, , must]) => must || every).map(([name, [, values]]) => [name, values[0]])),
        ),
      ]);
    const array = (tie("any") as fc.Arbitrary<[Schema, unknown[]]>).map(([items, values]): [Schema, unknown[]] => [
      { type: "array", items, maxItems: 3 },
      [[], values.slice(0, 3)],
    ]);
    const either = fc
      .tuple(leaf, tie("any") as fc.Arbitrary<[Schema, unknown[]]>)
      .map(([[a, ofA], [b, ofB]]): [Schema, unknown[]] => [{ anyOf: [a, b] }, [...ofA, ...ofB]]);
    return { any: fc.oneof({ maxDepth: 2, depthSize: "small" }, leaf, object, array, either) };
  });
  return any.map(([schema, documents]) => ({ schema, documents }));
}
