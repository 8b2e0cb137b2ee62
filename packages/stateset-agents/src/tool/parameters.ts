/** What a tool takes: a zod schema, any Standard Schema that gives JSON Schema, or JSON Schema itself. */
import { messageOf, StatesetError } from "../error.ts";
import { compileSchema, type JsonSchema } from "./schema/compile-schema.ts";

/** The part of the Standard Schema that is needed here (standardschema.dev). */
export interface StandardSchema<Output = unknown> {
  readonly "~standard": {
    readonly version: number;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
    readonly jsonSchema?: { readonly input: (options: { target: "draft-2020-12" }) => Record<string, unknown> };
  };
}

type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string; readonly path?: readonly unknown[] | undefined }[] };

export type ToolParameters = StandardSchema | JsonSchema;

/** What `execute` is given. */
export type ArgumentsOf<P> = P extends StandardSchema<infer Output> ? Output : Record<string, unknown>;

export type Checked<A> = { ok: true; value: A } | { ok: false; problems: string[] };

export interface ReadParameters {
  /** For the model. */
  schema: Record<string, unknown>;
  check(value: unknown): Promise<Checked<never>>;
}

/** `where` names them in errors. */
export function readParameters(
  parameters: ToolParameters = { type: "object", properties: {} },
  where: string,
): ReadParameters {
  return isStandard(parameters) ? fromStandard(parameters, where) : fromSchema(parameters, where);
}

function fromSchema(parameters: JsonSchema, where: string): ReadParameters {
  requireKeywords(parameters, where);
  const problemsOf = compileSchema(parameters, where);
  const { $schema: _, type = "object", ...rest } = JSON.parse(JSON.stringify(parameters)) as Record<string, unknown>;
  if (type !== "object") {
    throw new StatesetError("INVALID_OPTION", `${where} is of type ${JSON.stringify(type)}.`, {
      hint: 'Arguments are given by name: make it { type: "object", properties: { … } }.',
    });
  }
  return {
    schema: { type, ...rest },
    async check(value) {
      const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
      const problems = isObject ? problemsOf(value) : ["arguments is not of type object"];
      return problems.length > 0 ? { ok: false, problems } : { ok: true, value: value as never };
    },
  };
}

/** Words of JSON Schema that say what an object holds. */
const holding = [
  ...["type", "properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"],
  ...["required", "minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies"],
  ...["allOf", "anyOf", "oneOf", "not", "if", "enum", "const", "definitions"],
];
const notes = ["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"];

/** `{ city: z.string() }` is valid JSON Schema, of which all words are notes: the tool would take anything, and the model be told nothing. */
function requireKeywords(parameters: JsonSchema, where: string): void {
  if (typeof parameters !== "object" || parameters === null) return;
  const words = Object.keys(parameters).filter((word) => !notes.includes(word) && !word.startsWith("x-"));
  if (words.length === 0 || words.some((word) => word.startsWith("$") || holding.includes(word))) return;
  throw new StatesetError("INVALID_OPTION", `${where} is no JSON schema: it has "${words[0]}" and no "properties".`, {
    hint: `Write { type: "object", properties: { ${words[0]}: … } }, or with zod z.object({ ${words[0]}: … }).`,
  });
}

export function isStandard(value: unknown): value is StandardSchema {
  return (typeof value === "object" || typeof value === "function") && value !== null && "~standard" in value;
}

function fromStandard(parameters: StandardSchema, where: string): ReadParameters {
  const standard = parameters["~standard"];
  let schema: Record<string, unknown>;
  try {
    if (!standard.jsonSchema) throw new Error(`${standard.vendor} does not give one`);
    schema = standard.jsonSchema.input({ target: "draft-2020-12" });
  } catch (error) {
    throw new StatesetError("INVALID_OPTION", `${where} cannot be written as JSON Schema: ${messageOf(error)}.`, {
      hint: "The model is shown JSON Schema. Use types that have a form in it, or give JSON Schema itself.",
      cause: error,
    });
  }
  const { schema: shown } = fromSchema(schema, where);
  return {
    schema: shown,
    async check(value) {
      const result = await standard.validate(value);
      if (!result.issues) return { ok: true, value: result.value as never };
      return {
        ok: false,
        problems: result.issues.map(({ message, path = [] }) => `arguments${placeOf(path)}: ${message}`),
      };
    },
  };
}

function placeOf(path: readonly unknown[]): string {
  const keys = path.map((part) => (typeof part === "object" && part !== null && "key" in part ? part.key : part));
  return keys.map((key) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`)).join("");
}
