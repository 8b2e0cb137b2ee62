/** The way of one request: who asks, whether it may, what it says, the answer, and a note of it all. */
import { randomBytes } from "node:crypto";
import { linkSignals } from "../abort.ts";
import { createMeasure } from "./draw.ts";
import { EventStream } from "./event-stream.ts";
import type { Exchange } from "./exchange.ts";
import { readJson } from "./guard/read-json.ts";
import { securityHeaders } from "./guard/security-headers.ts";
import { HttpError, httpErrorOf } from "./http-error.ts";
import { authenticate, requireScope } from "./key/authenticate.ts";
import type { Caller, Keys } from "./key/caller.ts";
import { createKeyLimits, type KeyLimits, type Permit } from "./key/limits.ts";
import { ModelTable } from "./model-table.ts";
import type { Observer, Served, ServedContent } from "./observe/observer.ts";
import type { RequestSpan, TracedRequest } from "./observe/spans.ts";
import { readQuery } from "./read-query.ts";
import type { ResponseCache } from "./response-cache.ts";
import { type Answer, nameOf, type Route } from "./route.ts";

export interface ServerParts {
  models: ModelTable;
  /** Undefined: whoever reaches the server may ask. */
  keys: Keys | undefined;
  limits: KeyLimits;
  observer: Observer;
  /** Whether what is asked and answered is kept for the observer. */
  content: boolean;
  guard: (headers: Headers) => void;
  startSpan: ((request: TracedRequest) => RequestSpan) | undefined;
  keepAliveMs: number;
  stalledMs: number;
  deadlineMs: number | undefined;
  cache: ResponseCache | undefined;
  /** Told of what no client is told: the server's own failures. */
  onFailure: (error: unknown, requestId: string) => void;
  /** Told of what routes say for the log. */
  note: (event: string, fields: Readonly<Record<string, unknown>>, level: "info" | "warn") => void;
  /** Requests that are being answered. */
  running: Set<Promise<unknown>>;
  /** Streams that end with the server. */
  endless: Set<EventStream>;
  /** Set while the server ends: nothing new is begun. */
  draining: boolean;
  /** Fires when streams that still run are to end. */
  ending: AbortSignal;
}

/** Of a server without models, keys and anybody who looks on. */
export function plainParts(ending: AbortSignal): ServerParts {
  return {
    ...{ models: new ModelTable([]), keys: undefined, limits: createKeyLimits(), observer: { served: () => {} } },
    ...{ content: false, guard: () => {}, startSpan: undefined, onFailure: () => {}, note: () => {} },
    ...{ keepAliveMs: 15_000, stalledMs: 30_000, deadlineMs: undefined, cache: undefined },
    ...{ running: new Set(), endless: new Set(), draining: false, ending },
  };
}

/** Without keys, everybody who can reach the server. */
export const anybody: Caller = {
  ...{ keyId: "anonymous", project: "default", limits: {} },
  scopes: new Set(["infer", "read", "admin", "metrics"]),
};

/** What tells requests apart in logs; a client's own is taken where it cannot be anything else. */
function requestIdOf(headers: Headers): string {
  const given = headers.get("x-request-id") ?? "";
  return /^[\w.-]{1,128}$/.test(given) ? given : `req_${randomBytes(12).toString("hex")}`;
}

export async function serveExchange(
  route: Route,
  request: Request,
  params: Readonly<Record<string, string>>,
  parts: ServerParts,
): Promise<Response> {
  const arrived = performance.now();
  const requestId = requestIdOf(request.headers);
  const measure = createMeasure();
  const ignored = new Set<string>();
  const link = linkSignals(request.signal, parts.ending);
  const served: Served = {
    ...{
      requestId,
      route: nameOf(route),
      status: 200,
      failed: false,
      streamed: false,
      aborted: false,
      requestBytes: 0,
    },
    ...{ promptTokens: 0, cachedTokens: 0, sampledTokens: 0, durationMs: 0 },
  };
  const said: ServedContent | undefined = parts.content ? {} : undefined;
  let permit: Permit | undefined;
  let stream: EventStream | undefined;
  let span: RequestSpan | undefined;
  let exchange: Exchange | undefined;
  let over!: () => void;
  const running = new Promise<void>((settle) => {
    over = settle;
  });
  parts.running.add(running);
  const finish = () => {
    link.unlink();
    permit?.settle(measure.promptTokens + measure.sampledTokens);
    const { chain } = exchange ?? {};
    Object.assign(served, measure, chain && { chain }, { durationMs: performance.now() - arrived });
    parts.observer.served(served, said);
    span?.end(served);
    parts.running.delete(running);
    over();
  };
  const failed = (thrown: unknown): HttpError => {
    const error = httpErrorOf(thrown);
    served.errorCode = error.details.code ?? "error";
    served.failed = error.status >= 500;
    served.aborted = error.status === 499;
    if (error.status >= 500 && error.cause !== undefined) parts.onFailure(error.cause, requestId);
    return error;
  };
  const headers = () => ({
    ...securityHeaders,
    "x-request-id": requestId,
    ...permit?.headers(),
    ...(ignored.size > 0 && { "x-stateset-ignored": [...ignored].sort().join(", ") }),
  });

  try {
    parts.guard(request.headers);
    if (parts.draining && route.scope !== "open") throw serverEnds();
    const caller = identify(route, request.headers, parts);
    Object.assign(served, { keyId: caller.keyId, project: caller.project });
    // Requests that turn out to be none count too, or a key could send as many of them as it likes.
    if (route.limited) permit = parts.limits.enter(caller);
    const query = route.query ? readQuery(route.query, request.url) : {};
    const { maxBytes, types } = route;
    const read = maxBytes > 0 ? await readJson(request, { maxBytes, types }) : undefined;
    served.requestBytes = read?.bytes ?? 0;
    if (said) said.request = read?.value;
    exchange = {
      ...{ arrived, caller, params, query, ignored, measure, body: read?.value, signal: link.signal },
      ...{ deadlineMs: parts.deadlineMs, cache: parts.cache },
      model(name) {
        const model = parts.models.find(name, caller);
        served.model = model.name;
        const traceparent = request.headers.get("traceparent") ?? undefined;
        if (route.operation) span ??= parts.startSpan?.({ operation: route.operation, model: model.name, traceparent });
        return model;
      },
      models: () => parts.models.of(caller),
      reserve: (tokens) => permit?.reserve(tokens),
      header: (name) => request.headers.get(name) ?? undefined,
      note: (event, fields, level = "info") => parts.note(event, { requestId, ...fields }, level),
      stream({ endless = false } = {}) {
        if (stream) return stream;
        const { keepAliveMs, stalledMs } = parts;
        const events: string[] = [];
        if (said && !endless) said.response = events;
        const kept = said && !endless && { onEvent: (data: string) => void events.push(data) };
        stream = new EventStream({ keepAliveMs, stalledMs, onLeft: link.abort, ...kept });
        if (endless) parts.endless.add(stream);
        return stream;
      },
      failed,
    };
    const answer = await route.answer(exchange);
    if (!(answer instanceof EventStream)) {
      const response = responseOf(answer, headers());
      if (said && !(answer instanceof Response)) said.response = answer;
      served.status = response.status;
      served.failed = response.status >= 500;
      finish();
      return response;
    }
    served.streamed = true;
    answer.done.then((how) => {
      parts.endless.delete(answer);
      if (how === "left") served.aborted = true;
      finish();
    });
    const events = { "content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no" };
    return new Response(answer.body, { status: 200, headers: { ...headers(), ...events } });
  } catch (thrown) {
    stream?.end();
    const error = failed(thrown);
    served.status = error.status;
    if (said) said.response = error.toBody();
    finish();
    return responseOfError(error, headers());
  }
}

function identify(route: Route, headers: Headers, { keys }: ServerParts): Caller {
  const find = () => {
    if (route.identify) return route.identify(headers, keys);
    return keys ? authenticate(keys, headers.get("authorization")) : anybody;
  };
  if (route.scope === "open") return ifKnown(find);
  const caller = find();
  requireScope(caller, route.scope);
  return caller;
}

/** Open routes say more to those who may know more, and answer everybody: a probe's key may be old, or the keys unreadable. */
function ifKnown(find: () => Caller): Caller {
  try {
    return find();
  } catch {
    return nobody;
  }
}

const nobody: Caller = { keyId: "none", project: "none", scopes: new Set(), limits: {} };

function responseOf(answer: Exclude<Answer, EventStream>, headers: Record<string, string>): Response {
  if (!(answer instanceof Response)) {
    const type = { "content-type": "application/json" };
    return new Response(JSON.stringify(answer), { status: 200, headers: { ...headers, ...type } });
  }
  // A page that is to be shown says so itself.
  for (const [name, value] of Object.entries(headers)) if (!answer.headers.has(name)) answer.headers.set(name, value);
  return answer;
}

function responseOfError(error: HttpError, headers: Record<string, string>): Response {
  return new Response(JSON.stringify(error.toBody()), {
    status: error.status,
    headers: { ...headers, "content-type": "application/json", ...error.details.headers },
  });
}

/** The answer to what never became a request. */
export function refusal(thrown: unknown): Response {
  return responseOfError(httpErrorOf(thrown), { ...securityHeaders, "x-request-id": requestIdOf(new Headers()) });
}

/** What everybody is told who cannot be answered any more. */
export function serverEnds(): HttpError {
  return new HttpError(503, "The server is ending.", { code: "draining", headers: { "retry-after": "1" } });
}
