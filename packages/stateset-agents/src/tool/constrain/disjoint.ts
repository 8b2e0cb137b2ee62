/** Whether no value can fit two schemas, by what they say plainly: then "exactly one of them" is "one of them". */
import { isDeepStrictEqual } from "node:util";
import type { JsonSchema } from "../schema/compile-schema.ts";

export type Resolve = (schema: unknown) => JsonSchema;

export function areDisjoint(a: JsonSchema, b: JsonSchema, resolve: Resolve, depth = 0): boolean {
  if (depth > 4) return false;
  const [valuesOfA, valuesOfB] = [valuesOf(a), valuesOf(b)];
  if (valuesOfA && valuesOfB) {
    return !valuesOfA.some((one) => valuesOfB.some((other) => isDeepStrictEqual(one, other)));
  }
  const [typesOfA, typesOfB] = [typesOf(a), typesOf(b)];
  if (!typesOfA || !typesOfB) return false;
  const shared = typesOfA.filter((type) => typesOfB.includes(type));
  if (shared.length === 0) return true;
  // A property that both must have, and that cannot be the same.
  if (shared.some((type) => type !== "object")) return false;
  const required = (schema: JsonSchema) => (schema.required as string[] | undefined) ?? [];
  const property = (schema: JsonSchema, name: string) =>
    resolve((schema.properties as Record<string, unknown> | undefined)?.[name] ?? {});
  return required(a)
    .filter((name) => required(b).includes(name))
    .some((name) => areDisjoint(property(a, name), property(b, name), resolve, depth + 1));
}

export function valuesOf(schema: JsonSchema): unknown[] | undefined {
  if (Object.hasOwn(schema, "const")) return [schema.const];
  return schema.enum as unknown[] | undefined;
}

/** Whole numbers are numbers. */
function typesOf(schema: JsonSchema): string[] | undefined {
  const values = valuesOf(schema);
  if (values) return values.map(typeOf);
  const { type } = schema;
  return type === undefined
    ? undefined
    : [type as string | string[]].flat().map((one) => (one === "integer" ? "number" : one));
}

export function typeOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}
