/** Two schemas that both must hold, as one. Only what can be said in one schema; the rest is refused by name. */
import { isDeepStrictEqual } from "node:util";
import type { JsonSchema } from "../schema/compile-schema.ts";
import { unsupported } from "./unsupported.ts";

const greater = (a: unknown, b: unknown) => Math.max(a as number, b as number);
const smaller = (a: unknown, b: unknown) => Math.min(a as number, b as number);

const rules: Readonly<Record<string, (a: never, b: never) => unknown>> = {
  ...{ minimum: greater, exclusiveMinimum: greater, minLength: greater, minItems: greater, minProperties: greater },
  ...{ maximum: smaller, exclusiveMaximum: smaller, maxLength: smaller, maxItems: smaller, maxProperties: smaller },
  required: (a: string[], b: string[]) => [...new Set([...a, ...b])],
  type: (a: string | string[], b: string | string[]) => commonTypes([a].flat(), [b].flat()),
  enum: (a: unknown[], b: unknown[]) => a.filter((one) => b.some((other) => isDeepStrictEqual(one, other))),
  properties: (a: Record<string, unknown>, b: Record<string, unknown>) => {
    const shared = Object.keys(a).filter((name) => Object.hasOwn(b, name));
    return { ...a, ...b, ...Object.fromEntries(shared.map((name) => [name, { allOf: [a[name], b[name]] }])) };
  },
  items: (a: unknown, b: unknown) => ({ allOf: [a, b] }),
};

const notes = new Set([
  "title",
  "description",
  "default",
  "examples",
  "$comment",
  "deprecated",
  "readOnly",
  "writeOnly",
]);

export function mergeSchemas(a: JsonSchema, b: JsonSchema, where: string): JsonSchema {
  const merged: Record<string, unknown> = { ...a };
  closed(a, b, where);
  for (const [name, value] of Object.entries(b)) {
    if (!Object.hasOwn(a, name) || isDeepStrictEqual(a[name], value)) merged[name] = value;
    else if (rules[name]) merged[name] = rules[name](a[name] as never, value as never);
    else if (!notes.has(name)) throw unsupported(`"${name}" that is said twice, in schemas that both must hold`, where);
  }
  return merged;
}

/** Each says of its own properties alone that there are no others; together that would forbid those of the other. */
function closed(a: JsonSchema, b: JsonSchema, where: string): void {
  const names = (schema: JsonSchema) => Object.keys((schema.properties as object | undefined) ?? {});
  const shuts = (one: JsonSchema, other: JsonSchema) => {
    const { additionalProperties = true } = one;
    return additionalProperties !== true && names(other).some((name) => !names(one).includes(name));
  };
  if (shuts(a, b) || shuts(b, a)) {
    throw unsupported(
      '"additionalProperties" in schemas that both must hold, where one knows properties that the other does not',
      where,
    );
  }
}

function commonTypes(a: readonly string[], b: readonly string[]): string[] {
  const both = a.filter((one) => b.includes(one) || (one === "integer" && b.includes("number")));
  return b.includes("integer") && a.includes("number") && !both.includes("integer") ? [...both, "integer"] : both;
}
