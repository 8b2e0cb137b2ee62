/** The table of routes as an application that answers requests. */
import { Hono } from "hono";
import { HttpError } from "./http-error.ts";
import { checkRoutes, type Route } from "./route.ts";
import { type ServerParts, serveExchange } from "./serve-exchange.ts";

export function appOf(routes: readonly Route[], parts: ServerParts): Hono {
  checkRoutes(routes);
  const app = new Hono();
  for (const route of routes) {
    app.on(route.method, route.path, (c) =>
      serveExchange(route, c.req.raw, c.req.param() as Record<string, string>, parts),
    );
  }
  for (const path of new Set(routes.map((route) => route.path))) {
    const methods = routes.filter((route) => route.path === path).map(({ method }) => method);
    const allow = methods.flatMap((method) => (method === "GET" ? [method, "HEAD"] : [method])).join(", ");
    const refused = () =>
      new HttpError(405, `${path.replace(/\{.*\}/, "")} takes ${allow}.`, {
        code: "method_not_allowed",
        headers: { allow },
      });
    app.all(path, (c) => serveExchange(refusal(refused), c.req.raw, {}, parts));
  }
  const unknown = refusal(() => new HttpError(404, "There is no such route.", { code: "unknown_route" }));
  app.all("*", (c) => serveExchange(unknown, c.req.raw, {}, parts));
  return app;
}

/** What is no route is guarded and noted as one, under no name of the table. */
function refusal(error: () => HttpError): Route {
  return {
    ...{ method: "GET", path: "*", scope: "open", maxBytes: 0, limited: false, summary: "" },
    answer() {
      throw error();
    },
  };
}
