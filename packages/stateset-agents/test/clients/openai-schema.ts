/** OpenAI's own description of what its API answers, for what we send. Only some checkouts have it beside them. */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { Sent } from "./real-server.ts";

const file = fileURLToPath(new URL("../../../../../shared/data/openai-openapi-served.json", import.meta.url));

export const hasOpenaiSchema = existsSync(file);

const answers: [path: RegExp, whole: string, event?: string][] = [
  [/^\/v1\/chat\/completions$/, "CreateChatCompletionResponse", "CreateChatCompletionStreamResponse"],
  [/^\/v1\/models$/, "ListModelsResponse"],
  [/^\/v1\/models\/[^/]+$/, "Model"],
];

let ajv: Ajv2020 | undefined;

/** What of an answer is not as OpenAI's would be: empty where all is. */
export function deviations(sent: Pick<Sent, "path" | "status" | "headers" | "text">): string[] {
  const [, whole, event] = answers.find(([path]) => path.test(sent.path)) ?? [];
  if (sent.status !== 200) return deviationsFrom("ErrorResponse", sent.text);
  if (!sent.headers.get("content-type")?.startsWith("text/event-stream")) return deviationsFrom(whole!, sent.text);
  const events = sent.text.split("\n\n").filter((text) => text.startsWith("data: "));
  return events.flatMap((text) => {
    const data = text.slice("data: ".length);
    if (data === "[DONE]") return [];
    return deviationsFrom("error" in JSON.parse(data) ? "ErrorResponse" : event!, data);
  });
}

function deviationsFrom(name: string, text: string): string[] {
  ajv ??= readSchema();
  const check = ajv.getSchema(`openai#/components/schemas/${name}`);
  if (!check) throw new Error(`OpenAI's schema has no ${name}.`);
  check(JSON.parse(text));
  return (check.errors ?? []).map(({ instancePath, message }) => `${name}${instancePath} ${message}: ${text}`);
}

function readSchema(): Ajv2020 {
  const found = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  found.addSchema({ $id: "openai", ...(jsonSchemaOf(JSON.parse(readFileSync(file, "utf8"))) as object) });
  return found;
}

/** OpenAPI 3.0's `nullable` and boolean bounds, which the file still has, as JSON Schema has them. */
function jsonSchemaOf(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(jsonSchemaOf);
  if (typeof node !== "object" || node === null) return node;
  const { nullable, exclusiveMinimum, minimum, ...rest } = node as Record<string, unknown>;
  const own = Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, jsonSchemaOf(value)]));
  if (minimum !== undefined) own[exclusiveMinimum === true ? "exclusiveMinimum" : "minimum"] = minimum;
  if (typeof exclusiveMinimum === "number") own.exclusiveMinimum = exclusiveMinimum;
  return nullable === true ? { anyOf: [own, { type: "null" }] } : own;
}
