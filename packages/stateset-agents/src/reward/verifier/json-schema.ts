import { isDeepStrictEqual } from "node:util";
import { StatesetError } from "../../error.ts";

/** The part of JSON Schema that tool parameters use. Anything else is refused, rather than ignored. */
export type JsonSchema = Record<string, unknown>;

const annotations = new Set(["title", "description", "default", "examples", "$schema"]);
const types: Readonly<Record<string, (value: unknown) => boolean>> = {
  object: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  array: Array.isArray,
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number" && Number.isFinite(value),
  integer: Number.isInteger,
  boolean: (value) => typeof value === "boolean",
  null: (value) => value === null,
};

type Check = (value: unknown, rule: unknown, at: string, schema: JsonSchema) => string[];

const fails = (bad: boolean, problem: string): string[] => (bad ? [problem] : []);

const keywords: Readonly<Record<string, Check>> = {
  type: (value, rule, at) => {
    const names = (Array.isArray(rule) ? rule : [rule]) as string[];
    return fails(!names.some((name) => types[name]?.(value)), `${at} is not of type ${names.join(" or ")}`);
  },
  enum: (value, rule, at) =>
    fails(
      !(rule as unknown[]).some((one) => isDeepStrictEqual(one, value)),
      `${at} is not one of ${JSON.stringify(rule)}`,
    ),
  const: (value, rule, at) => fails(!isDeepStrictEqual(rule, value), `${at} is not ${JSON.stringify(rule)}`),
  minimum: (value, rule, at) =>
    fails(typeof value === "number" && value < (rule as number), `${at} is less than ${rule}`),
  maximum: (value, rule, at) =>
    fails(typeof value === "number" && value > (rule as number), `${at} is more than ${rule}`),
  minLength: (value, rule, at) =>
    fails(typeof value === "string" && [...value].length < (rule as number), `${at} is too short`),
  maxLength: (value, rule, at) =>
    fails(typeof value === "string" && [...value].length > (rule as number), `${at} is too long`),
  pattern: (value, rule, at) =>
    fails(typeof value === "string" && !new RegExp(rule as string, "u").test(value), `${at} does not match ${rule}`),
  minItems: (value, rule, at) =>
    fails(Array.isArray(value) && value.length < (rule as number), `${at} has too few items`),
  maxItems: (value, rule, at) =>
    fails(Array.isArray(value) && value.length > (rule as number), `${at} has too many items`),
  items: (value, rule, at) =>
    Array.isArray(value) ? value.flatMap((item, i) => schemaProblems(item, rule as JsonSchema, `${at}[${i}]`)) : [],
  required: (value, rule, at) =>
    types.object!(value)
      ? (rule as string[]).flatMap((key) => fails(!Object.hasOwn(value as object, key), `${at}.${key} is missing`))
      : [],
  properties: (value, rule, at) =>
    types.object!(value)
      ? Object.entries(rule as Record<string, JsonSchema>).flatMap(([key, part]) =>
          Object.hasOwn(value as object, key)
            ? schemaProblems((value as Record<string, unknown>)[key], part, `${at}.${key}`)
            : [],
        )
      : [],
  additionalProperties: (value, rule, at, schema) => {
    if (rule === true || !types.object!(value)) return [];
    const known = (schema.properties ?? {}) as object;
    const extra = Object.entries(value as object).filter(([key]) => !Object.hasOwn(known, key));
    return rule === false
      ? extra.map(([key]) => `${at}.${key} is not known`)
      : extra.flatMap(([key, part]) => schemaProblems(part, rule as JsonSchema, `${at}.${key}`));
  },
  anyOf: (value, rule, at) =>
    fails(
      !(rule as JsonSchema[]).some((one) => schemaProblems(value, one, at).length === 0),
      `${at} fits none of its forms`,
    ),
};

/** What is wrong with a value, one sentence each; empty when it fits. */
export function schemaProblems(value: unknown, schema: JsonSchema, at = "arguments"): string[] {
  return Object.entries(schema).flatMap(([keyword, rule]) => {
    if (annotations.has(keyword)) return [];
    return keywords[keyword]!(value, rule, at, schema);
  });
}

/** Refuses schemas with keywords that schemaProblems would not check. */
export function requireKnownKeywords(schema: unknown, where: string): void {
  if (typeof schema !== "object" || schema === null) {
    throw new StatesetError("INVALID_OPTION", `${where} is not a JSON schema object.`);
  }
  for (const [keyword, rule] of Object.entries(schema)) {
    if (annotations.has(keyword)) continue;
    if (!(keyword in keywords)) {
      throw new StatesetError(
        "INVALID_OPTION",
        `${where} uses the JSON schema keyword "${keyword}", which is not checked here.`,
        {
          hint: `Checked: ${Object.keys(keywords).join(", ")}.`,
        },
      );
    }
    if (keyword === "properties") {
      for (const [key, part] of Object.entries(rule as object)) requireKnownKeywords(part, `${where}.${key}`);
    }
    if (keyword === "items" || (keyword === "additionalProperties" && typeof rule === "object")) {
      requireKnownKeywords(rule, `${where}.${keyword}`);
    }
    if (keyword === "anyOf") for (const part of rule as unknown[]) requireKnownKeywords(part, `${where}.anyOf`);
  }
}
