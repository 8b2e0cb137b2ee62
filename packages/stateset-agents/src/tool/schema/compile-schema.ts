/** The one validator of JSON Schema: for tools, rewards and MCP. Schemas may come from strangers, so what one can cost is bounded. */
import { Ajv, type ErrorObject, type Options } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import { messageOf, StatesetError } from "../../error.ts";
import { compileRegex } from "./regex-match.ts";

/** An object in JSON Schema's form: draft 2020-12, or draft 7 where its `$schema` says so. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** What is wrong with a value, one sentence each; empty when it fits. */
export type SchemaCheck = (value: unknown, at?: string) => string[];

const most = { characters: 256 * 1024, depth: 64, problems: 8 };

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
  code: { regExp },
};
let validators: { draft7: Ajv; latest: Ajv } | undefined;

/** Refuses what is no schema, what refers to other documents, and what is too large or too deep to be one. `where` names it in errors. */
export function compileSchema(schema: unknown, where: string): SchemaCheck {
  const own = readSchema(schema, where);
  validators ??= { draft7: new Ajv(options), latest: new Ajv2020(options) };
  const ajv = /draft-0[4-7]/.test(String(own.$schema ?? "")) ? validators.draft7 : validators.latest;
  const fail = (error: unknown): never => {
    throw new StatesetError("INVALID_OPTION", `${where} is no JSON schema that can be checked: ${messageOf(error)}.`, {
      hint: "Give a schema of draft 2020-12 or 7 that refers to nothing outside itself, with patterns that do not look ahead or behind.",
      cause: error,
    });
  };
  const { $schema: _, ...rest } = own;
  try {
    const validate = ajv.compile(rest);
    // One that refers to itself without end does so for any value.
    validate({});
    return (value, at = "arguments") => {
      try {
        if (validate(value)) return [];
      } catch (error) {
        return [`${at} cannot be checked: ${messageOf(error)}`];
      }
      const problems = [...new Set((validate.errors ?? []).map((one) => sentence(one, at)))];
      const more = problems.length - most.problems;
      return more > 0 ? [...problems.slice(0, most.problems), `and ${more} more`] : problems;
    };
  } catch (error) {
    return fail(error);
  } finally {
    // Two of one $id must not meet, and none must stay for ever.
    ajv.removeSchema(rest);
    if (typeof own.$id === "string") ajv.removeSchema(own.$id);
  }
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
  return JSON.parse(text) as Record<string, unknown>;
}

/** At most one more than the limit. */
function depthOf(value: unknown, depth = 0): number {
  if (typeof value !== "object" || value === null || depth > most.depth) return depth;
  return Math.max(depth + 1, ...Object.values(value).map((part) => depthOf(part, depth + 1)));
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
