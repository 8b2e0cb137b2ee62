/** A route of the server. All there are stand in one table (routes.ts): what has no entry there is not served. */
import type { z } from "zod";
import type { EventStream } from "./event-stream.ts";
import type { Exchange } from "./exchange.ts";
import type { Scope } from "./key/caller.ts";

export interface Route {
  method: "GET" | "POST";
  path: string;
  /** What a key must be good for; "open": anybody may ask. */
  scope: Scope | "open";
  /** Of the request's body; 0 where it has none. */
  maxBytes: number;
  /** Whether it counts towards what a key may ask in a minute. */
  limited: boolean;
  /** The GenAI operation it is traced as. */
  operation?: "chat" | "text_completion" | "embeddings";
  summary: string;
  body?: z.ZodType;
  response?: z.ZodType;
  answer(exchange: Exchange): Answer | Promise<Answer>;
}

/** JSON, events, or a response of its own. */
export type Answer = object | EventStream | Response;

export function nameOf({ method, path }: Pick<Route, "method" | "path">): string {
  return `${method} ${path}`;
}
