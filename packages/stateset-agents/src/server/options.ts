import { z } from "zod";
import type { ServerAlert } from "../alert.ts";
import { longestTimerMs, parseOptions } from "../options.ts";
import type { NodeLimits } from "./guard/node-limits.ts";
import type { Keys } from "./key/caller.ts";
import { type LogOptions, logSchema } from "./observe/log.ts";
import type { RequestTraceOptions } from "./observe/spans.ts";
import type { Route, ServerRoute } from "./route.ts";
import type { ModelSource } from "./served-model.ts";

export interface ServerOptions {
  /** What is served, by the name clients call it: an agent or a policy that is open, or a function that opens one. */
  models: Readonly<Record<string, ModelSource>>;
  /** Who may ask: openKeyStore(file) or staticKeys([...]). Without it the server listens on loopback alone. */
  keys?: Keys | undefined;
  /** More names that requests may be for, beside this machine's own. */
  hosts?: readonly string[] | undefined;
  /** Pages of browsers that may ask, such as "https://app.example". */
  origins?: readonly string[] | undefined;
  /** Requests that may wait for each model; one more is told to come later. Default 512. */
  maxWaiting?: number | undefined;
  /** After so long nobody waits for a reply that names no deadline of its own. Default: none. */
  deadlineMs?: number | undefined;
  /** Of a request's body. Default 4 MiB. */
  maxBodyBytes?: number | undefined;
  /** Of streams: a comment after so long without a token. Default 15,000. */
  keepAliveMs?: number | undefined;
  /** Of streams: a client that reads nothing for so long is let go. Default 30,000. */
  stalledMs?: number | undefined;
  /** Limits on connections and headers. */
  connections?: NodeLimits | undefined;
  /** JSON lines of requests and events. Default: none. */
  log?: LogOptions | undefined;
  /** Makes a span of each request: see telemetry. */
  trace?: RequestTraceOptions | undefined;
  /** Told of a server in trouble: a full queue, failures, an engine that failed. */
  onAlert?: ((alert: ServerAlert) => void | Promise<void>) | undefined;
  /** Keep replies of greedy and seeded requests for the same key. Default: none. */
  responseCache?: { entries: number; bytes: number } | undefined;
  /** Where a model's newest weights lie, for POST /admin/models/:model/reload. Without it there is no such route. */
  weights?: ((model: string) => string | Promise<string>) | undefined;
  /** Routes of other parts of the library beside the server's own: those of createDashboard(). */
  routes?: readonly ServerRoute[] | undefined;
}

const ms = z.number().positive().max(longestTimerMs);
const names = z.array(z.string().min(1));
const aFunction = (value: unknown) => typeof value === "function";

const modelName = z.string().regex(/^[\w./:@+-]{1,128}$/, "a model's name has 1 to 128 letters, digits and ./:@+_-");

const schema = z.strictObject({
  models: z
    .record(
      modelName,
      z.custom<ModelSource>((value) => aFunction(value) || typeof value === "object"),
    )
    .refine((models) => Object.keys(models).length > 0, "there is no model"),
  keys: z.custom<Keys>((value) => typeof value === "object" && value !== null && "find" in value).optional(),
  hosts: names.optional(),
  origins: names.optional(),
  maxWaiting: z.int().min(0).default(512),
  deadlineMs: ms.optional(),
  maxBodyBytes: z
    .int()
    .min(1024)
    .default(4 << 20),
  keepAliveMs: ms.default(15_000),
  stalledMs: ms.default(30_000),
  connections: z
    .strictObject({
      ...{ headersTimeoutMs: ms, requestTimeoutMs: ms, keepAliveTimeoutMs: ms },
      ...{ maxHeaderBytes: z.int().min(1024), connectionsPerAddress: z.int().min(1), connections: z.int().min(1) },
    })
    .partial()
    .optional(),
  log: logSchema.optional(),
  trace: z.custom<RequestTraceOptions>((value) => typeof value === "object" && value !== null).optional(),
  onAlert: z.custom<ServerOptions["onAlert"]>(aFunction, "a function was expected").optional(),
  responseCache: z.strictObject({ entries: z.int().min(1), bytes: z.int().min(1) }).optional(),
  weights: z.custom<ServerOptions["weights"]>(aFunction, "a function was expected").optional(),
  routes: z.array(z.custom<Route>((value) => typeof value === "object" && value !== null)).default([]),
});

export type ResolvedServerOptions = z.output<typeof schema>;

export function resolveServerOptions(options: ServerOptions): ResolvedServerOptions {
  return parseOptions(schema, options, "createServer()");
}
