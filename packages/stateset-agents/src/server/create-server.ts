/** Serves agents to many behind the APIs that people's programs speak. */
import type { Server } from "node:http";
import { breakerStates } from "../endpoint/breaker.ts";
import { StatesetError } from "../error.ts";
import { urlHost } from "../network.ts";
import { appOf } from "./app.ts";
import { createHostGuard, isLoopbackName, requireKeysBeyondLoopback } from "./guard/host.ts";
import { createKeyLimits } from "./key/limits.ts";
import { ModelTable } from "./model-table.ts";
import type { HealthSources } from "./observe/health.ts";
import { createLog } from "./observe/log.ts";
import { createMetrics } from "./observe/metrics.ts";
import { observeAll } from "./observe/observer.ts";
import { traceRequests } from "./observe/spans.ts";
import { watchServer } from "./observe/watch.ts";
import { openPort } from "./open-port.ts";
import { resolveServerOptions, type ServerOptions } from "./options.ts";
import { createResponseCache } from "./response-cache.ts";
import { nameOf } from "./route.ts";
import { routesOf } from "./routes.ts";
import { type ServerParts, serverEnds } from "./serve-exchange.ts";
import { ServedModel } from "./served-model.ts";

export interface AgentServer {
  /** Answers a request, for those who have a server already. */
  fetch(request: Request): Promise<Response>;
  /** Opens a port, once; 0 takes a free one. */
  listen(where?: { host?: string; port?: number }): Promise<{ url: string; port: number }>;
  /** Takes no more requests, waits for those that run up to so long, and tells the rest. */
  drain(timeoutMs?: number): Promise<void>;
  /** Ends at once, and closes the models that it opened. */
  close(): Promise<void>;
  /** Other weights of the same shape for a model, while it serves. Resolves to their version. */
  load(model: string, folder: string): Promise<string>;
  /** The models that answer. */
  models(): { name: string; version: string; stub: boolean; contextLength: number; parameters: number }[];
}

export async function createServer(options: ServerOptions): Promise<AgentServer> {
  const o = resolveServerOptions(options);
  const log = o.log && (await createLog(o.log));
  const opened: ServedModel[] = [];
  try {
    for (const [name, source] of Object.entries(o.models)) {
      const onEngine = (event: { model: string; state: string }) =>
        log?.event(`engine-${event.state}`, { model: event.model }, event.state === "ready" ? "info" : "error");
      opened.push(
        await ServedModel.open({ name, source, maxWaiting: o.maxWaiting, shared: o.keys !== undefined, onEngine }),
      );
    }
  } catch (error) {
    await Promise.allSettled([...opened.map((model) => model.close()), log?.close()]);
    throw error;
  }
  const models = new ModelTable(opened);
  const ending = new AbortController();
  const health: HealthSources = {
    draining: () => parts.draining,
    models: () =>
      models.all().map((model) => ({
        ...{ name: model.name, loaded: model.state !== "reopening", alive: model.state !== "failed" },
        ...{ waiting: model.admission.waiting, maxWaiting: o.maxWaiting },
      })),
  };
  const metrics = await createMetrics({
    models: () => models.all().flatMap((model) => model.measured()),
    breakers: breakerStates,
    routes: () => routes.map(nameOf),
    ...(log && { logLost: () => log.lost }),
  });
  const watch = o.onAlert && watchServer({ server: "serve", sources: health, onAlert: o.onAlert });
  const parts: ServerParts = {
    ...{ models, keys: o.keys, limits: createKeyLimits(), keepAliveMs: o.keepAliveMs, stalledMs: o.stalledMs },
    observer: observeAll([metrics, ...(log ? [log] : []), ...(watch ? [watch] : [])]),
    // Whoever brings a server of his own says there which names are his.
    guard: () => {},
    startSpan: o.trace && traceRequests(o.trace).start,
    onFailure: (error, requestId) => log?.event("failure", { requestId, error }, "error"),
    running: new Set(),
    draining: false,
    ending: ending.signal,
    deadlineMs: o.deadlineMs,
    content: o.log?.content === true,
    cache: o.responseCache && createResponseCache(o.responseCache),
  };
  const { maxBodyBytes, weights } = o;
  const routes = routesOf({ maxBodyBytes, health, metrics, weights });
  const app = appOf(routes, parts);
  let node: Server | undefined;
  /** Where, or where it is about to. */
  let listening: string | undefined;

  const server: AgentServer = {
    fetch: async (request) => app.fetch(request),
    async listen({ host = "127.0.0.1", port = 8000 } = {}) {
      requireKeysBeyondLoopback(host, o.keys);
      if (listening !== undefined) {
        throw new StatesetError("INVALID_OPTION", `The server listens already, on ${listening}.`, {
          hint: "For another port make another server with createServer(): it may have the same agents.",
        });
      }
      const { guard } = parts;
      const loopback = isLoopbackName(urlHost(host));
      // All addresses at once have no name that a request could be for.
      const named = isEveryAddress(host) ? [] : [urlHost(host)];
      parts.guard = createHostGuard({ loopback, hosts: [...(o.hosts ?? []), ...named], origins: o.origins ?? [] });
      listening = `http://${urlHost(host)}:${port}`;
      try {
        const opened = await openPort(server.fetch, { host, port, connections: o.connections });
        node = opened.node;
        listening = opened.url;
        return { url: opened.url, port: opened.port };
      } catch (error) {
        listening = undefined;
        parts.guard = guard;
        throw error;
      }
    },
    async drain(timeoutMs = 30_000) {
      parts.draining = true;
      for (const model of models.all()) model.admission.close(serverEnds());
      // Until then the port stays open: whoever still comes is told to go elsewhere, and a probe that it is not ready.
      await within(timeoutMs, Promise.all(parts.running));
      const closed = new Promise<void>((settle) => (node ? node.close(() => settle()) : settle()));
      ending.abort(serverEnds());
      await within(1000, Promise.all(parts.running));
      // What was written last may still be on its way; a connection that is kept alive closes once it is idle.
      const idle = setInterval(() => node?.closeIdleConnections(), 20);
      await within(1000, closed);
      clearInterval(idle);
      await server.close();
    },
    async close() {
      parts.draining = true;
      ending.abort(serverEnds());
      node?.close();
      // Streams are told, and the log has a line of each, before anything they use is closed.
      await within(1000, Promise.all(parts.running));
      node?.closeAllConnections();
      watch?.close();
      metrics.close();
      await Promise.allSettled(models.all().map((model) => model.close()));
      // What was broken off is noted too.
      await within(1000, Promise.all(parts.running));
      await log?.close();
    },
    load: (model, folder) => models.named(model).load(folder),
    models: () =>
      models.all().flatMap((one) => {
        if (one.state !== "ready") return [];
        const { version, model } = one.policy;
        const { stub, contextLength, parameters } = model;
        return [{ name: one.name, version, stub, contextLength, parameters }];
      }),
  };
  return server;
}

/** Until it is done, but no longer than so long. */
async function within(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((settle) => {
    timer = setTimeout(settle, ms);
  });
  await Promise.race([work, late]);
  clearTimeout(timer);
}

function isEveryAddress(host: string): boolean {
  return host === "0.0.0.0" || host === "::";
}
