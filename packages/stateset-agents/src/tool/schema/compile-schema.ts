/** The one validator of JSON Schema: for tools, rewards and MCP. Schemas may come from strangers, so what one can cost is bounded. */
import { Ajv, type ErrorObject, type Options } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import { canonicalJson } from "../../canonical-json.ts";
import { messageOf, StatesetError } from "../../error.ts";
import { compileRegex } from "./regex-match.ts";
import { limitWork, spend } from "./work.ts";

/** An object in JSON Schema's form: draft 2020-12, or draft 7 where its `$schema` says so. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** What is wrong with a value, one sentence each; empty when it fits. */
export type SchemaCheck = (value: unknown, at?: string) => string[];

/** Of a reference the compiler makes a function, which takes about a millisecond. */
const most = { characters: 256 * 1024, references: 1000, depth: 64, problems: 8, told: 1000 };

// The validator knows patterns it has met by what they print.
const regExp = Object.assign((pattern: string) => ({ ...compileRegex(pattern), toString: () => `/${pattern}/` }), {
  code: "",
});
const options: Options = {
  // Keywords that are not known are notes, as the standard has it.
  strict: false,
  allErrors: true,
  // A format is a note too, unless somebody asks for it to be checked.
  validateFormats: false,
  ownProperties: true,
  logger: false,
  // What is referred to a thousand times would be compiled as often.
  inlineRefs: false,
  code: { regExp },
};
let validators: { draft7: Ajv; latest: Ajv } | undefined;

/** Put beside every reference, for these alone can make checking endless: its value is what following it may cost. */
const costKeyword = "x-stateset-cost";

function bounded<A extends Ajv>(ajv: A): A {
  ajv.addKeyword({ keyword: costKeyword, schemaType: "number", errors: false, validate: followed });
  // The validator's own compares every item with every other.
  ajv.removeKeyword("uniqueItems");
  const error = { message: "must not have two items that are alike" };
  ajv.addKeyword({ keyword: "uniqueItems", type: "array", schemaType: "boolean", error, validate: isUnique });
  return ajv;
}

function followed(cost: number): boolean {
  spend(cost);
  return true;
}

function isUnique(wanted: boolean, items: readonly unknown[]): boolean {
  return !wanted || new Set(items.map(canonicalJson)).size === items.length;
}

/** Refuses what is no schema, what refers to other documents, and what is too large or too deep to be one. `where` names it in errors. */
export function compileSchema(schema: unknown, where: string): SchemaCheck {
  const own = readSchema(schema, where);
  validators ??= { draft7: bounded(new Ajv(options)), latest: bounded(new Ajv2020(options)) };
  const ajv = /draft-0[4-7]/.test(String(own.$schema ?? "")) ? validators.draft7 : validators.latest;
  const fail = (error: unknown): never => {
    throw new StatesetError("INVALID_OPTION", `${where} is no JSON schema that can be checked: ${reasonOf(error)}.`, {
      hint: "Give a schema of draft 2020-12 or 7 that refers to nothing outside itself, with patterns that do not look ahead or behind.",
      cause: error,
    });
  };
  const { $schema: _, ...rest } = own;
  try {
    // Of a keyword two characters or more; of a pattern's own work its engine tells.
    const cost = Math.ceil(JSON.stringify(rest).length / 16);
    const validate = limitWork(() => {
      const compiled = ajv.compile(withCosts(rest, cost));
      // One that refers to itself without end does so for any value.
      compiled({});
      return compiled;
    });
    return (value, at = "arguments") => {
      try {
        const fits = limitWork(() => {
          spend(cost * sizeOf(value));
          return validate(value);
        });
        if (fits) return [];
      } catch (error) {
        return [`${at} cannot be checked: ${reasonOf(error)}`];
      }
      return problemsOf(validate.errors ?? [], at);
    };
  } catch (error) {
    return fail(error);
  } finally {
    // Two of one $id must not meet, and none must stay for ever.
    ajv.removeSchema(rest);
    if (typeof own.$id === "string") ajv.removeSchema(own.$id);
  }
}

/** That the stack was full tells nobody what to change. */
function reasonOf(error: unknown): string {
  const full = error instanceof RangeError && /call stack/.test(error.message);
  return full ? "it is nested too deep, or refers to itself without end" : messageOf(error);
}

function problemsOf(errors: readonly ErrorObject[], at: string): string[] {
  const told = errors.slice(0, most.told);
  const problems = [...new Set(told.map((one) => sentence(one, at)))];
  const more = problems.length - most.problems + errors.length - told.length;
  return more > 0 ? [...problems.slice(0, most.problems), `and ${more} more`] : problems;
}

/** Also where nobody would look for a schema: a reference may lead anywhere. */
function withCosts<T>(schema: T, cost: number): T {
  if (typeof schema !== "object" || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map((one) => withCosts(one, cost)) as T;
  const parts = Object.entries(schema).map(([name, part]) => [name, withCosts(part, cost)]);
  return Object.fromEntries(refers(schema) ? [...parts, [costKeyword, cost]] : parts) as T;
}

/** How many values it holds, itself among them. Spends as it counts. */
function sizeOf(value: unknown): number {
  let size = 0;
  const open = [value];
  while (open.length > 0) {
    const one = open.pop();
    size++;
    spend(1);
    if (typeof one === "object" && one !== null) for (const part of Object.values(one)) open.push(part);
  }
  return size;
}

/** A copy, so that nobody changes it afterwards. */
function readSchema(schema: unknown, where: string): Record<string, unknown> {
  const fail = (what: string): never => {
    throw new StatesetError("INVALID_OPTION", `${where} is no JSON schema: ${what}.`, {
      hint: 'Give an object such as { type: "object", properties: { city: { type: "string" } }, required: ["city"] }.',
    });
  };
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) fail("it is no object");
  if (depthOf(schema) > most.depth) fail(`it is nested more than ${most.depth} deep, or holds itself`);
  const text = JSON.stringify(schema);
  if (text.length > most.characters) fail(`it has ${text.length} characters, and ${most.characters} are the limit`);
  const copy = JSON.parse(text) as Record<string, unknown>;
  const references = referencesIn(copy);
  if (references > most.references) fail(`it has ${references} references, and ${most.references} are the limit`);
  return copy;
}

function referencesIn(schema: unknown): number {
  if (typeof schema !== "object" || schema === null) return 0;
  return Object.values(schema).reduce<number>((sum, part) => sum + referencesIn(part), refers(schema) ? 1 : 0);
}

/** A property may be called so; then it is a schema. */
function refers(schema: object): boolean {
  const { $ref, $dynamicRef } = schema as Record<string, unknown>;
  return typeof $ref === "string" || typeof $dynamicRef === "string";
}

/** At most one more than the limit. */
function depthOf(value: unknown, depth = 0): number {
  if (typeof value !== "object" || value === null || depth > most.depth) return depth;
  return Object.values(value).reduce<number>((most, part) => Math.max(most, depthOf(part, depth + 1)), depth + 1);
}

function sentence({ instancePath, keyword, params, message = "is wrong" }: ErrorObject, at: string): string {
  const place =
    at +
    instancePath
      .replace(/\/(\d+)(?=\/|$)/g, "[$1]")
      .replaceAll("/", ".")
      .replaceAll("~1", "/");
  if (keyword === "required") return `${place}.${params.missingProperty} is missing`;
  if (keyword === "additionalProperties" || keyword === "unevaluatedProperties")
    return `${place}.${params.additionalProperty ?? params.unevaluatedProperty} is not known`;
  if (keyword === "enum") return `${place} is not one of ${JSON.stringify(params.allowedValues)}`;
  if (keyword === "const") return `${place} is not ${JSON.stringify(params.allowedValue)}`;
  if (keyword === "type") return `${place} is not of type ${[params.type].flat().join(" or ")}`;
  return `${place} ${message}`;
}
