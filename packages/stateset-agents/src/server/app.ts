/** The table of routes as an application that answers requests. */
import { Hono } from "hono";
import { securityHeaders } from "./guard/security-headers.ts";
import { HttpError } from "./http-error.ts";
import type { Route } from "./route.ts";
import { responseOfError, type ServerParts, serveExchange } from "./serve-exchange.ts";

export function appOf(routes: readonly Route[], parts: ServerParts): Hono {
  const app = new Hono();
  for (const route of routes) {
    app.on(route.method, route.path, (c) =>
      serveExchange(route, c.req.raw, c.req.param() as Record<string, string>, parts),
    );
  }
  const paths = new Set(routes.map(({ path }) => path));
  app.all("*", (c) => {
    const known = [...paths].find((path) => path === c.req.path);
    const allow = routes
      .filter(({ path }) => path === known)
      .map(({ method }) => method)
      .join(", ");
    const error = known
      ? new HttpError(405, `${known} takes ${allow}.`, { code: "method_not_allowed", headers: { allow } })
      : new HttpError(404, "There is no such route.", { code: "unknown_route" });
    return responseOfError(error, { ...securityHeaders });
  });
  return app;
}
