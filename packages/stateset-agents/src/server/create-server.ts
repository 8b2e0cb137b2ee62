/** Serves agents to many behind the APIs that people's programs speak. */
import { breakerStates } from "../endpoint/breaker.ts";
import { ModelTable } from "./model-table.ts";
import type { HealthSources } from "./observe/health.ts";
import { createLog } from "./observe/log.ts";
import { createMetrics } from "./observe/metrics.ts";
import { observeAll } from "./observe/observer.ts";
import { traceRequests } from "./observe/spans.ts";
import { watchServer } from "./observe/watch.ts";
import { resolveServerOptions, type ServerOptions } from "./options.ts";
import { createResponseCache } from "./response-cache.ts";
import { checkRoutes, nameOf } from "./route.ts";
import { createRouteServer, type RouteServer, within } from "./route-server.ts";
import { routesOf } from "./routes.ts";
import { plainParts, type ServerParts, serverEnds } from "./serve-exchange.ts";
import { ServedModel } from "./served-model.ts";

/** Closing it closes the models that it opened. */
export interface AgentServer extends RouteServer {
  /** Other weights of the same shape for a model, while it serves. Resolves to their version. */
  load(model: string, folder: string): Promise<string>;
  /** The models that answer. */
  models(): { name: string; version: string; stub: boolean; contextLength: number; parameters: number }[];
}

export async function createServer(options: ServerOptions): Promise<AgentServer> {
  const o = resolveServerOptions(options);
  // Before anything is opened that would have to be closed.
  checkRoutes(o.routes);
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
    // Whoever brings a server of his own says there which names are his.
    ...plainParts(ending.signal),
    ...{ models, keys: o.keys, keepAliveMs: o.keepAliveMs, stalledMs: o.stalledMs, deadlineMs: o.deadlineMs },
    observer: observeAll([metrics, ...(log ? [log] : []), ...(watch ? [watch] : [])]),
    startSpan: o.trace && traceRequests(o.trace).start,
    onFailure: (error, requestId) => log?.event("failure", { requestId, error }, "error"),
    note: (event, fields, level) => log?.event(event, fields, level),
    content: o.log?.content === true,
    cache: o.responseCache && createResponseCache(o.responseCache),
  };
  const { maxBodyBytes, weights, hosts, origins, connections } = o;
  const routes = routesOf({ maxBodyBytes, health, metrics, weights, more: o.routes });
  const server = createRouteServer({
    ...{ routes, parts, ending, hosts, origins, connections, defaultPort: 8000 },
    onDrain() {
      for (const model of models.all()) model.admission.close(serverEnds());
    },
    async onClose() {
      watch?.close();
      metrics.close();
      await Promise.allSettled(models.all().map((model) => model.close()));
      // What was broken off is noted too.
      await within(1000, Promise.all(parts.running));
      await log?.close();
    },
  });
  // The same object: who puts something before its fetch() has it on the port too.
  return Object.assign(server, {
    load: (model: string, folder: string) => models.named(model).load(folder),
    models: () =>
      models.all().flatMap((one) => {
        if (one.state !== "ready") return [];
        const { version, model } = one.policy;
        const { stub, contextLength, parameters } = model;
        return [{ name: one.name, version, stub, contextLength, parameters }];
      }),
  });
}
