/** Holds what the server says to OpenAI's own schemas (fixtures/openai). */
import { readFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { Json } from "./cli.ts";

export type Kind = "whole" | "event";

const names: Record<string, Record<Kind, string>> = {
  "/v1/chat/completions": { whole: "CreateChatCompletionResponse", event: "CreateChatCompletionStreamResponse" },
  "/v1/completions": { whole: "CreateCompletionResponse", event: "chunk" },
  "/v1/embeddings": { whole: "CreateEmbeddingResponse", event: "none" },
  "/v1/models": { whole: "ListModelsResponse", event: "none" },
};

const ajv = new Ajv2020({ strict: false, validateFormats: false });
ajv.addSchema({ $id: "openai", ...readSchemas() });

/** What is wrong with a reply to a path; undefined where nothing is, or the path is none of OpenAI's. */
export function openaiProblem(path: string, json: Json, kind: Kind): string | undefined {
  const own = path.startsWith("/v1/models/") ? "Model" : names[path]?.[kind];
  const name = "error" in json ? "ErrorResponse" : own;
  if (name === undefined) return undefined;
  const check = ajv.getSchema(`openai#/components/schemas/${name}`)!;
  return check(json) ? undefined : `${path} is no ${name}: ${ajv.errorsText(check.errors)}`;
}

function readSchemas(): Json {
  const file = new URL("./fixtures/openai/schemas.json", import.meta.url);
  const read = JSON.parse(readFileSync(file, "utf8"), (_, value: unknown) => withNull(value)) as Json;
  const { schemas } = read.components;
  // Where OpenAI's server says more than its schema, which has no schema for the chunks of a completion, no null for the log-prob of the
  // first token of all, and no embedding in base64, which OpenAI's own client asks for.
  const { properties: parts } = schemas.CreateCompletionResponse.properties.choices.items.properties.logprobs.anyOf[0];
  for (const name of ["token_logprobs", "top_logprobs"]) {
    parts[name].items = { anyOf: [parts[name].items, { type: "null" }] };
  }
  schemas.Embedding.properties.embedding = { anyOf: [schemas.Embedding.properties.embedding, { type: "string" }] };
  const chunk = structuredClone(schemas.CreateCompletionResponse);
  const { finish_reason: reason } = chunk.properties.choices.items.properties;
  chunk.properties.choices.items.properties.finish_reason = { anyOf: [reason, { type: "null" }] };
  chunk.properties.usage = { anyOf: [chunk.properties.usage, { type: "null" }] };
  return { components: { schemas: { ...schemas, chunk } } };
}

/** OpenAPI 3.0's way to say that null will do. */
function withNull(value: unknown): unknown {
  if (typeof value !== "object" || value === null || !("nullable" in value)) return value;
  const { nullable, ...schema } = value;
  return nullable === true ? { anyOf: [schema, { type: "null" }] } : schema;
}
