/** Random schemas for tests, each with documents that fit it. */
import fc from "fast-check";

type Schema = Record<string, unknown>;

/** A schema with documents that fit it, in plain form. */
export function describedSchema(): fc.Arbitrary<{ schema: Schema; documents: unknown[] }> {
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

/** The same, where a part that is used twice stands in `$defs`, and objects may lead back to the whole. */
export function referringSchema(): fc.Arbitrary<Schema> {
  return fc
    .tuple(describedSchema(), describedSchema(), fc.boolean())
    .map(([{ schema: shared }, { schema: own }, loops]) => {
      const parts = { first: { $ref: "#/$defs/shared" }, "größe 尺寸": own, again: { $ref: "#/$defs/shared" } };
      const next = { anyOf: [{ $ref: "#" }, { type: "null" }] };
      return {
        ...{
          $defs: { shared },
          type: "object",
          properties: { ...parts, ratio: { type: "number", minimum: -2.5, maximum: 40 }, ...(loops && { next }) },
        },
        required: ["first", "ratio"],
      };
    });
}
