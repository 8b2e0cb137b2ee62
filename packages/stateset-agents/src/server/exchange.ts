/** One request on its way through the server. */
import type { Measure } from "./draw.ts";
import type { EventStream } from "./event-stream.ts";
import type { HttpError } from "./http-error.ts";
import type { Caller } from "./key/caller.ts";
import type { ResponseCache } from "./response-cache.ts";
import type { ServedModel } from "./served-model.ts";

export interface Exchange {
  /** On the clock of performance.now(). */
  readonly arrived: number;
  readonly caller: Caller;
  /** What the path names. */
  readonly params: Readonly<Record<string, string>>;
  /** What stands behind the ?, as the route's schema has it. */
  readonly query: Readonly<Record<string, string | undefined>>;
  /** The JSON of the body, guarded; undefined where the route takes none. */
  readonly body: unknown;
  /** Fires when the client has left, or the server ends. */
  readonly signal: AbortSignal;
  /** Fields that were given and have no effect; said in a header. */
  readonly ignored: Set<string>;
  readonly measure: Measure;
  /** A model by the name a client gave it; refused where there is none, or the key may not use it. Names the exchange's model. */
  model(name: string): ServedModel;
  /** The models this key may use. */
  models(): ServedModel[];
  /** Takes so many tokens off what the key may use in a minute; what was not used is given back when the exchange ends. */
  reserve(tokens: number): void;
  /** Whether the conversation went on from tokens that are known. */
  chain?: "continued" | "started";
  /** A stream whose reading is the exchange's last part. `endless`: it ends with the server, which does not wait for it. */
  stream(options?: { endless?: boolean }): EventStream;
  /** Of the request. */
  header(name: string): string | undefined;
  /** A line in the server's log. Strings are written as they are but for secrets. */
  note(event: string, fields: Readonly<Record<string, unknown>>, level?: "info" | "warn"): void;
  /** The server's own deadline for requests that name none. */
  readonly deadlineMs: number | undefined;
  /** Where replies that would be given again are kept, if the server keeps any. */
  readonly cache: ResponseCache | undefined;
  /** Notes what a reply that had begun failed with, and gives what the client is told of it. */
  failed(error: unknown): HttpError;
}
