import { z } from "zod";

/** What the document tells of a route. */
export interface DescribedRoute {
  method: string;
  /** As the router has it: "/v1/models/:model". */
  path: string;
  /** What a key must be good for; undefined where anybody may ask. */
  scope: string | undefined;
  summary: string;
  query?: z.ZodType | undefined;
  body?: z.ZodType | undefined;
  response?: z.ZodType | undefined;
}

export interface OpenApiDocument {
  openapi: "3.1.0";
  info: { title: string; version: string };
  paths: Record<string, Record<string, object>>;
  components: { schemas: Record<string, object>; securitySchemes: Record<string, object> };
}

const errorBody = z.strictObject({
  error: z.strictObject({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable(),
    code: z.string().nullable(),
  }),
});

/** The routes as an OpenAPI 3.1 document: what zod checks is what it says. */
export function openapiOf(
  routes: readonly DescribedRoute[],
  info: { title: string; version: string },
): OpenApiDocument {
  const schemas = new Schemas();
  const failure = json(schemas.add("Error", errorBody, "output"));
  const paths: OpenApiDocument["paths"] = {};
  for (const { method, path, scope, summary, query, body, response } of routes) {
    const { template, names } = templateOf(path);
    const operationId = idOf(method, template);
    const parameters = [...names.map(inPath), ...(query ? inQuery(query) : [])];
    const answer = response ? json(schemas.add(`${operationId}_response`, response, "output")) : {};
    paths[template] ??= {};
    paths[template][method.toLowerCase()] = {
      operationId,
      summary,
      // Scopes of a key are roles to OpenAPI; no entry means that anybody may ask.
      security: scope === undefined ? [] : [{ key: [scope] }],
      ...(parameters.length > 0 && { parameters }),
      ...(body && { requestBody: { required: true, ...json(schemas.add(`${operationId}_body`, body, "input")) } }),
      responses: {
        200: { description: "Done.", ...answer },
        default: { description: "Refused or failed.", ...failure },
      },
    };
  }
  return {
    openapi: "3.1.0",
    info,
    paths,
    components: { schemas: schemas.all, securitySchemes: { key: { type: "http", scheme: "bearer" } } },
  };
}

function json(schema: object): { content: object } {
  return { content: { "application/json": { schema } } };
}

function inPath(name: string): object {
  return { name, in: "path", required: true, schema: { type: "string" } };
}

function inQuery(schema: z.ZodType): object[] {
  const { properties = {}, required = [] } = z.toJSONSchema(schema, { io: "input" });
  return Object.entries(properties).map(([name, property]) => {
    const { description, ...rest } = property as { description?: string };
    const said = description === undefined ? {} : { description };
    return { name, in: "query", required: required.includes(name), ...said, schema: rest };
  });
}

/** ":name" and ":name{pattern}" of the router as "{name}". */
function templateOf(path: string): { template: string; names: string[] } {
  const names: string[] = [];
  const template = path.replace(/:(\w+)(?:\{(?:[^{}]|\{[^{}]*\})*\})?/g, (_, name: string) => {
    names.push(name);
    return `{${name}}`;
  });
  return { template, names };
}

/** "post_v1_chat_completions". */
function idOf(method: string, template: string): string {
  return `${method.toLowerCase()}${template.replace(/[^a-z0-9]+/gi, "_")}`.replace(/_+$/, "");
}

/** The schemas of a document by name, each with its own definitions beside it; one that is used twice is there once. */
class Schemas {
  readonly all: Record<string, object> = {};
  readonly #known = { input: new Map<z.ZodType, object>(), output: new Map<z.ZodType, object>() };

  add(name: string, schema: z.ZodType, io: "input" | "output"): object {
    const known = this.#known[io].get(schema);
    if (known) return known;
    // What JSON Schema cannot say (a transformed value) is left open.
    const { $schema: _, $defs = {}, ...root } = z.toJSONSchema(schema, { io, unrepresentable: "any" });
    const reference = { $ref: `#/components/schemas/${name}` };
    this.all[name] = moved(root, name);
    for (const [inner, definition] of Object.entries($defs)) {
      this.all[`${name}.${inner}`] = moved(definition, name);
    }
    this.#known[io].set(schema, reference);
    return reference;
  }
}

/** zod refers to "#" and "#/$defs/x" of a schema that stands alone. */
function moved(value: unknown, name: string): object {
  const text = JSON.stringify(value, (key, inner: unknown) => {
    if (key !== "$ref" || typeof inner !== "string") return inner;
    const inside = inner.split("/$defs/")[1];
    return `#/components/schemas/${inside === undefined ? name : `${name}.${inside}`}`;
  });
  return JSON.parse(text) as object;
}
