/** Every route there is. A route that is not in this table does not exist, and none can be without a scope and limits. */
import { z } from "zod";
import { StatesetError } from "../error.ts";
import { answerChat } from "./dialect/chat/chat.ts";
import { chatCompletionSchema } from "./dialect/chat/reply-schema.ts";
import { chatRequestSchema, ignoredChatFields } from "./dialect/chat/schema.ts";
import { answerCompletion } from "./dialect/completions/completions.ts";
import { completionRequestSchema, completionSchema, ignoredCompletionFields } from "./dialect/completions/schema.ts";
import {
  answerEmbeddings,
  embeddingsRequestSchema,
  embeddingsSchema,
  ignoredEmbeddingsFields,
} from "./dialect/embeddings.ts";
import { listModels, modelSchema, modelsSchema, showModel } from "./dialect/models.ts";
import {
  answerDetokenize,
  answerTokenize,
  detokenizeRequestSchema,
  detokenizeSchema,
  tokenizeRequestSchema,
  tokenizeSchema,
} from "./dialect/tokenize.ts";
import { HttpError } from "./http-error.ts";
import { type HealthSources, healthz, readyReply, readyz } from "./observe/health.ts";
import type { Metrics } from "./observe/metrics.ts";
import { type OpenApiDocument, openapiOf } from "./openapi.ts";
import { readFields } from "./read-fields.ts";
import type { Route } from "./route.ts";

export interface RouteSources {
  maxBodyBytes: number;
  health: HealthSources;
  metrics: Metrics;
  weights: ((model: string) => string | Promise<string>) | undefined;
  /** Of other parts of the library. */
  more?: readonly Route[] | undefined;
}

const reloadSchema = z.strictObject({});

/** Routes that only ask take no body. */
const asks = { method: "GET", maxBytes: 0 } as const;

export function routesOf({ maxBodyBytes: maxBytes, health, metrics, weights, more = [] }: RouteSources): Route[] {
  const infers = { method: "POST", scope: "infer", maxBytes, limited: true } as const;
  const reads = { ...asks, scope: "read", limited: true } as const;
  /** Made when it is first asked for: it is the same for everybody, and takes a while. */
  let document: OpenApiDocument | undefined;
  const routes: Route[] = [
    {
      ...infers,
      path: "/v1/chat/completions",
      operation: "chat",
      summary: "Go on with a conversation.",
      body: taking(chatRequestSchema, ignoredChatFields),
      response: chatCompletionSchema,
      answer: answerChat,
    },
    {
      ...infers,
      path: "/v1/completions",
      operation: "text_completion",
      summary: "Go on with a text, or score one.",
      body: taking(completionRequestSchema, ignoredCompletionFields),
      response: completionSchema,
      answer: answerCompletion,
    },
    {
      ...infers,
      path: "/v1/embeddings",
      operation: "embeddings",
      summary: "Texts as vectors.",
      body: taking(embeddingsRequestSchema, ignoredEmbeddingsFields),
      response: embeddingsSchema,
      answer: answerEmbeddings,
    },
    {
      ...infers,
      path: "/tokenize",
      summary: "The tokens of a text or a conversation.",
      body: tokenizeRequestSchema,
      response: tokenizeSchema,
      answer: answerTokenize,
    },
    {
      ...infers,
      path: "/detokenize",
      summary: "The text of tokens.",
      body: detokenizeRequestSchema,
      response: detokenizeSchema,
      answer: answerDetokenize,
    },
    {
      ...{ ...reads, scope: "infer" },
      path: "/v1/models",
      summary: "The models this key may use.",
      response: modelsSchema,
      answer: listModels,
    },
    {
      ...{ ...reads, scope: "infer" },
      // Names may have slashes, as hub ids do.
      path: "/v1/models/:model{.+}",
      summary: "One of the models.",
      response: modelSchema,
      answer: showModel,
    },
    {
      ...{ ...asks, scope: "open", limited: false },
      path: "/healthz",
      summary: "Whether the process answers.",
      response: z.object({ status: z.literal("ok") }),
      answer: () => healthz(),
    },
    {
      ...{ ...asks, scope: "open", limited: false },
      path: "/readyz",
      summary: "Whether requests are welcome; with a key of scope read, why not.",
      response: z.object({ status: z.enum(["ready", "not ready"]), reasons: z.array(z.string()).optional() }),
      answer({ caller }) {
        const { status, body } = readyReply(readyz(health), caller.scopes);
        return Response.json(body, { status });
      },
    },
    {
      ...{ ...asks, scope: "metrics", limited: false },
      path: "/metrics",
      summary: "Numbers for Prometheus.",
      async answer() {
        return new Response(await metrics.text(), { headers: { "content-type": metrics.contentType } });
      },
    },
    {
      ...reads,
      path: "/openapi.json",
      summary: "This list, for machines.",
      answer() {
        document ??= openapiOf(routes.map(described), { title: "StateSet Agents", version: "1" });
        return document;
      },
    },
  ];
  if (weights) {
    routes.push({
      ...{ method: "POST", scope: "admin", maxBytes: 1024, limited: true, body: reloadSchema },
      path: "/admin/models/:model{.+}/reload",
      summary: "Load the newest weights of a model while it serves.",
      response: z.object({ model: z.string(), version: z.string() }),
      async answer(exchange) {
        readFields(reloadSchema, exchange.body, exchange);
        const model = exchange.model(exchange.params.model ?? "");
        try {
          return { model: model.name, version: await model.load(await weights(model.name)) };
        } catch (error) {
          throw StatesetError.isInstance(error) && /^(?:CHECKPOINT|MODEL)_/.test(error.code) ? unfit(error) : error;
        }
      },
    });
  }
  routes.push(...more);
  return routes;
}

/** Nothing is wrong with the server: what lies where the model came from is not its next weights. */
function unfit(cause: StatesetError): HttpError {
  const message = "There are no weights that this model could go on with where it was opened from.";
  const headers = { "x-should-retry": "false" };
  return new HttpError(409, message, { code: cause.code.toLowerCase(), headers, cause });
}

/** With the fields that are taken and have no effect: clients that are made of the document may send them too. */
function taking(schema: z.ZodObject, ignored: readonly string[]): z.ZodObject {
  return schema.extend(Object.fromEntries(ignored.map((name) => [name, z.unknown().optional()])));
}

function described({ method, path, scope, summary, query, body, response }: Route) {
  return { method, path, summary, query, body, response, scope: scope === "open" ? undefined : scope };
}
