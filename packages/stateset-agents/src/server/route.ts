/** A route of the server. All there are stand in one table (routes.ts): what has no entry there is not served. */
import type { z } from "zod";
import { StatesetError } from "../error.ts";
import type { EventStream } from "./event-stream.ts";
import type { Exchange } from "./exchange.ts";
import { type Caller, type Keys, type Scope, scopes } from "./key/caller.ts";

/** A route as whoever passes it on sees it: createDashboard() makes them, createServer() serves them. */
export interface ServerRoute {
  readonly method: "GET" | "POST";
  readonly path: string;
}

export interface Route extends ServerRoute {
  /** What a key must be good for; "open": anybody may ask. */
  scope: Scope | "open";
  /** Who asks, where something else than a key may say so. Throws 401. */
  identify?(headers: Headers, keys: Keys | undefined): Caller;
  /** Of the request's body; 0 where it has none. */
  maxBytes: number;
  /** Of the body, beside application/json. */
  types?: readonly string[];
  /** Whether it counts towards what a key may ask in a minute. */
  limited: boolean;
  /** The GenAI operation it is traced as. */
  operation?: "chat" | "text_completion" | "embeddings";
  summary: string;
  /** Of what stands behind the ?: strings, once each. Without it nobody looks there. */
  query?: z.ZodType;
  body?: z.ZodType;
  response?: z.ZodType;
  answer(exchange: Exchange): Answer | Promise<Answer>;
}

/** JSON, events, or a response of its own. */
export type Answer = object | EventStream | Response;

/** For those who write JavaScript, or pass by the types: a table with a route that lacks what guards it does not start. */
export function checkRoutes(routes: readonly Route[]): void {
  for (const route of routes) {
    const { scope, maxBytes, limited } = route;
    const guarded = (scope === "open" || scopes.includes(scope)) && typeof limited === "boolean";
    if (guarded && typeof route.answer === "function" && Number.isSafeInteger(maxBytes) && maxBytes >= 0) continue;
    throw new StatesetError("INVALID_OPTION", `The route ${nameOf(route)} does not say its scope and limits.`, {
      hint: "Give it scope, maxBytes and limited.",
    });
  }
  const names = routes.map(nameOf);
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined) throw new StatesetError("INVALID_OPTION", `The route ${twice} is there twice.`);
}

export function nameOf({ method, path }: Pick<Route, "method" | "path">): string {
  return `${method} ${path}`;
}
