import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { type DescribedRoute, openapiOf } from "./openapi.ts";

interface Part {
  text: string;
  inner: Part[];
}
const part: z.ZodType<Part> = z.strictObject({
  text: z.string(),
  get inner() {
    return z.array(part);
  },
});
const message = z.strictObject({ role: z.enum(["user", "assistant"]), parts: z.array(part) });
const reply = z.object({ id: z.string(), choices: z.array(z.object({ message })) });

const routes: DescribedRoute[] = [
  {
    method: "POST",
    path: "/v1/chat/completions",
    scope: "infer",
    summary: "Answer a conversation.",
    body: z.strictObject({
      messages: z.array(message).min(1),
      again: message.optional(),
      temperature: z.number().min(0).max(2).default(1),
      bias: z.record(z.string(), z.number()).nullish(),
      stop: z.union([z.string(), z.array(z.string()).max(4)]).optional(),
      when: z.date().optional(),
      count: z.string().transform(Number),
    }),
    response: reply,
  },
  { method: "POST", path: "/v1/again", scope: "infer", summary: "The same.", body: part, response: reply },
  { method: "GET", path: "/v1/models/:model{.+}", scope: "read", summary: "One model." },
  { method: "DELETE", path: "/v1/models/:model{.+}", scope: "admin", summary: "Forget it.", response: part },
  { method: "GET", path: "/r/:rollout{[a-f0-9]{8}}/:attempt/x", scope: "read", summary: "Two names." },
  {
    ...{ method: "GET", path: "/runs/:run", scope: "read", summary: "With a query." },
    query: z.strictObject({ sort: z.enum(["a", "b"]).optional().describe("By what."), from: z.string() }),
  },
  { method: "GET", path: "/healthz", scope: undefined, summary: "Whether it lives." },
];
const document = openapiOf(routes, { title: "shop", version: "1" });

/** Every `$ref` of a value. */
function references(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => (key === "$ref" ? [inner as string] : references(inner)));
}

describe("openapiOf", () => {
  it("has every route once, under its path and method", () => {
    const found = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method} ${path}`),
    );
    expect(found).toEqual([
      "post /v1/chat/completions",
      "post /v1/again",
      "get /v1/models/{model}",
      "delete /v1/models/{model}",
      "get /r/{rollout}/{attempt}/x",
      "get /runs/{run}",
      "get /healthz",
    ]);
  });

  it("says who may ask, and what the path must name", () => {
    expect(document.paths["/v1/models/{model}"]!.get).toMatchObject({
      operationId: "get_v1_models_model",
      summary: "One model.",
      security: [{ key: ["read"] }],
      parameters: [{ name: "model", in: "path", required: true, schema: { type: "string" } }],
    });
    expect(document.paths["/r/{rollout}/{attempt}/x"]!.get).toMatchObject({
      parameters: [{ name: "rollout" }, { name: "attempt" }],
    });
    expect(document.paths["/runs/{run}"]!.get).toMatchObject({
      parameters: [
        { name: "run", in: "path" },
        { name: "sort", in: "query", required: false, description: "By what.", schema: { enum: ["a", "b"] } },
        { name: "from", in: "query", required: true, schema: { type: "string" } },
      ],
    });
    expect(document.paths["/healthz"]!.get).toMatchObject({ security: [] });
    expect(document.components.securitySchemes).toEqual({ key: { type: "http", scheme: "bearer" } });
  });

  it("refers to nothing that it lacks, under names that OpenAPI allows", () => {
    const names = Object.keys(document.components.schemas);
    expect(names.every((name) => /^[\w.-]+$/.test(name))).toBe(true);
    const wanted = new Set(references(document));
    expect([...wanted].filter((ref) => !names.includes(ref.replace("#/components/schemas/", "")))).toEqual([]);
    expect(wanted.size).toBeGreaterThan(4);
  });

  it("describes with schemas that compile and check what zod checks", () => {
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    ajv.addSchema({ $id: "doc", ...document });
    const check = (name: string) => ajv.compile({ $ref: `doc#/components/schemas/${name}` });
    for (const name of Object.keys(document.components.schemas)) expect(check(name)).toBeTypeOf("function");
    const body = check("post_v1_chat_completions_body");
    const said = { role: "user", parts: [{ text: "a", inner: [{ text: "b", inner: [] }] }] };
    // A default may be left out, a transformed value is given as it comes in.
    expect(body({ messages: [said], again: said, count: "3" })).toBe(true);
    expect(body({ messages: [said] })).toBe(false);
    expect(body({ messages: [{ role: "user", parts: [{ text: "a", inner: [{ text: 1 }] }] }], count: "3" })).toBe(
      false,
    );
    expect(body({ messages: [said], count: "3", unknown: 1 })).toBe(false);
    const error = check("Error");
    expect(error({ error: { message: "no", type: "server_error", param: null, code: null } })).toBe(true);
    expect(error({ error: { message: "no" } })).toBe(false);
  });

  it("writes a schema that two routes share once", () => {
    const one = document.paths["/v1/chat/completions"]!.post as { responses: object };
    const other = document.paths["/v1/again"]!.post as { responses: object };
    expect(one.responses).toEqual(other.responses);
  });
});
