/** Schemas for parts of values: what is there must fit, and nothing has to be there. */
import { compileSchema, type JsonSchema, type SchemaCheck } from "./compile-schema.ts";

/** Words that ask for what is left out, or turn round what the words inside them say. */
const dropped = new Set([
  ...["required", "minProperties", "dependentRequired", "dependentSchemas", "dependencies"],
  ...["not", "if", "then", "else", "unevaluatedProperties"],
]);
/** Words whose values are schemas by name. */
const named = new Set(["properties", "patternProperties", "$defs", "definitions"]);
/** Words whose values are no schemas. */
const plain = new Set(["enum", "const", "default", "examples"]);

/** What of a part can never be in a value that fits the schema, which must be one that compileSchema() takes. */
export function compilePartial(schema: JsonSchema): SchemaCheck {
  try {
    return compileSchema(relaxed(schema), "a part of it");
  } catch {
    // A reference led into what was left out: then nothing can be said of parts, and whole values are checked as ever.
    return () => [];
  }
}

function relaxed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(relaxed);
  if (!isRecord(schema)) return schema;
  const { oneOf, ...rest } = schema;
  const parts = Object.entries(rest).filter(([word]) => !dropped.has(word));
  const read = Object.fromEntries(
    parts.map(([word, value]) => {
      if (plain.has(word)) return [word, value];
      if (!named.has(word) || !isRecord(value)) return [word, relaxed(value)];
      return [word, Object.fromEntries(Object.entries(value).map(([name, one]) => [name, relaxed(one)]))];
    }),
  );
  if (!Array.isArray(oneOf)) return read;
  // A part may fit several of which the whole fits one.
  return { ...read, allOf: [...(Array.isArray(read.allOf) ? read.allOf : []), { anyOf: relaxed(oneOf) }] };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
