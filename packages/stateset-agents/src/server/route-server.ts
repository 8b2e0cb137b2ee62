/** A table of routes behind a port: how it opens, how it ends, and whose requests it takes. What the routes do is theirs. */
import type { Server } from "node:http";
import { StatesetError } from "../error.ts";
import { urlHost } from "../network.ts";
import { appOf } from "./app.ts";
import { createHostGuard, isLoopbackName, requireKeysBeyondLoopback } from "./guard/host.ts";
import type { NodeLimits } from "./guard/node-limits.ts";
import { openPort } from "./open-port.ts";
import type { Route } from "./route.ts";
import { type ServerParts, serverEnds } from "./serve-exchange.ts";

export interface RouteServer {
  /** Answers a request, for those who have a server already. */
  fetch(request: Request): Promise<Response>;
  /** Opens a port, once; 0 takes a free one. */
  listen(where?: { host?: string; port?: number }): Promise<{ url: string; port: number }>;
  /** Takes no more requests, waits for those that run up to so long, and tells the rest. */
  drain(timeoutMs?: number): Promise<void>;
  /** Ends at once. */
  close(): Promise<void>;
}

export interface RouteServerOptions {
  routes: readonly Route[];
  parts: ServerParts;
  /** Fires `parts.ending`. */
  ending: AbortController;
  hosts?: readonly string[] | undefined;
  origins?: readonly string[] | undefined;
  connections?: NodeLimits | undefined;
  defaultPort: number;
  /** What no request is to wait for any more, once the server ends. */
  onDrain?(): void;
  /** When nothing is answered any more. */
  onClose(): Promise<void>;
}

export function createRouteServer({ routes, parts, ending, hosts, origins, ...o }: RouteServerOptions): RouteServer {
  const app = appOf(routes, parts);
  let node: Server | undefined;
  /** Where, or where it is about to. */
  let listening: string | undefined;

  const server: RouteServer = {
    fetch: async (request) => app.fetch(request),
    async listen({ host = "127.0.0.1", port = o.defaultPort } = {}) {
      requireKeysBeyondLoopback(host, parts.keys);
      if (listening !== undefined) {
        throw new StatesetError("INVALID_OPTION", `The server listens already, on ${listening}.`, {
          hint: "For another port make another server with createServer(): it may have the same agents.",
        });
      }
      const { guard } = parts;
      const loopback = isLoopbackName(urlHost(host));
      // All addresses at once have no name that a request could be for.
      const named = isEveryAddress(host) ? [] : [urlHost(host)];
      parts.guard = createHostGuard({ loopback, hosts: [...(hosts ?? []), ...named], origins: origins ?? [] });
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
      o.onDrain?.();
      for (const stream of parts.endless) stream.end();
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
      for (const stream of parts.endless) stream.end();
      node?.close();
      // Streams are told, and the log has a line of each, before anything they use is closed.
      await within(1000, Promise.all(parts.running));
      node?.closeAllConnections();
      await o.onClose();
    },
  };
  return server;
}

/** Until it is done, but no longer than so long. */
export async function within(ms: number, work: Promise<unknown>): Promise<void> {
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
