/**
 * fetch() for addresses that somebody else may have chosen. The address that a name leads to is checked when the connection is made, so
 * that a name which changes its mind (rebinding) changes nothing; redirects stay where they are; answers are bounded in size and time.
 */
import { lookup as systemLookup } from "node:dns";
import type { LookupFunction } from "node:net";
import type { buildConnector, Dispatcher } from "undici";
import { linkSignals } from "./abort.ts";
import { StatesetError } from "./error.ts";
import { urlHost } from "./network.ts";
import { type AllowList, kindOf, literalIn, readAllowList } from "./safe-address.ts";

export interface SafeRequest {
  method?: string;
  headers?: Record<string, string>;
  body?: string;
  signal?: AbortSignal | undefined;
}

export interface SafeFetchOptions {
  /**
   * What may be called beside public addresses: `host`, `host:port` or a network such as `10.1.0.0/16`. Calls with the same array share
   * connections; others never do.
   */
  allow?: readonly string[];
  /** Of the answer's body, unpacked. */
  maxBytes: number;
  /** For the whole call, body included. Left out: the signal alone decides. */
  timeoutMs?: number;
  /** In place of the system's, for tests. */
  lookup?: LookupFunction;
}

const mostRedirects = 3;

/** The whole answer. Throws FETCH_REFUSED, fetch's own errors, or a TimeoutError. */
export async function safeFetch(address: string, init: SafeRequest, options: SafeFetchOptions): Promise<Response> {
  const { maxBytes, timeoutMs } = options;
  const route = routeFor(options);
  const late = new AbortController();
  const timer =
    timeoutMs === undefined
      ? undefined
      : setTimeout(() => late.abort(new DOMException(`no answer within ${timeoutMs} ms`, "TimeoutError")), timeoutMs);
  const link = linkSignals(init.signal, late.signal);
  try {
    return await follow(new URL(address), init, await route, link.signal, maxBytes);
  } catch (error) {
    if (late.signal.aborted && !init.signal?.aborted) throw late.signal.reason;
    throw refusalIn(error) ?? error;
  } finally {
    clearTimeout(timer);
    link.unlink();
  }
}

interface Route {
  send: (url: string, init: object) => Promise<Response>;
  /** Throws when the URL may not be called, as far as it says itself. */
  check(url: URL): Promise<void>;
}

async function follow(
  start: URL,
  init: SafeRequest,
  route: Route,
  signal: AbortSignal,
  maxBytes: number,
): Promise<Response> {
  let url = start;
  let { method = "GET", body, headers } = init;
  for (let redirects = 0; ; redirects++) {
    await route.check(url);
    const response = await route.send(url.href, { method, headers, body, signal, redirect: "manual" });
    const location = response.headers.get("location");
    if (![301, 302, 303, 307, 308].includes(response.status) || location === null) return whole(response, maxBytes);
    await response.body?.cancel();
    const next = URL.canParse(location, url.href) ? new URL(location, url.href) : undefined;
    if (next?.origin !== url.origin || next.username || next.password) throw refused("it redirects elsewhere");
    if (redirects === mostRedirects) throw refused(`it redirects more than ${mostRedirects} times`);
    // As fetch() does it.
    if (response.status === 303 || (response.status < 303 && method === "POST")) {
      method = "GET";
      body = undefined;
      headers = without(headers, "content-type");
    }
    url = next;
  }
}

function without(headers: Record<string, string> = {}, name: string): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([key]) => key.toLowerCase() !== name));
}

async function whole(response: Response, maxBytes: number): Promise<Response> {
  const { status, statusText } = response;
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    size += chunk.length;
    if (size > maxBytes) throw refused(`its answer has more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  const headers = new Headers([...response.headers]);
  // Of the bytes that came, not of those that were unpacked.
  for (const name of ["content-encoding", "content-length"]) headers.delete(name);
  return new Response(chunks.length > 0 ? Buffer.concat(chunks, size) : null, { status, statusText, headers });
}

/** `why` completes "The call was refused: …"; it holds nothing of the address, which may hold a secret. */
function refused(why: string): StatesetError {
  return new StatesetError("FETCH_REFUSED", `The call was refused: ${why}.`);
}

/** fetch() hides what its connection failed of. */
function refusalIn(error: unknown): StatesetError | undefined {
  for (let one: unknown = error; one instanceof Error; one = one.cause) if (isRefusal(one)) return one;
  return undefined;
}

function isRefusal(error: unknown): error is StatesetError {
  return StatesetError.isInstance(error) && error.code === "FETCH_REFUSED";
}

const noEntries: readonly string[] = [];
/** Connections are shared inside a list only: one that a list allowed must not carry a call that it did not. */
const routes = new WeakMap<readonly string[], { made: Promise<Route>; proxies: string; lookup: LookupFunction }>();

function routeFor({ allow = noEntries, lookup = systemLookup as LookupFunction }: SafeFetchOptions): Promise<Route> {
  const proxies = JSON.stringify(proxyNames.map((name) => process.env[name]));
  const known = routes.get(allow);
  if (known?.proxies === proxies && known.lookup === lookup) return known.made;
  const made = openRoute(allow, lookup);
  routes.set(allow, { made, proxies, lookup });
  return made;
}

const proxyNames = ["https_proxy", "http_proxy", "no_proxy"].flatMap((name) => [name, name.toUpperCase()]);

async function openRoute(entries: readonly string[], lookup: LookupFunction): Promise<Route> {
  const allow = readAllowList(entries);
  const { buildConnector, EnvHttpProxyAgent, fetch } = await import("undici");
  const strict = buildConnector({ lookup: checkedLookup(lookup, allow, "request") });
  const operators = buildConnector({ lookup: checkedLookup(lookup, allow, "operator") });
  const connect: buildConnector.connector = (to, done) =>
    (allow.names({ ...to, hostname: urlHost(to.hostname) }) ? operators : strict)(to, done);
  const dispatcher: Dispatcher = new EnvHttpProxyAgent({ connect });
  const proxied = proxyNames.slice(0, 4).some((name) => process.env[name]);
  return {
    send: (url, init) =>
      (fetch as unknown as (url: string, init: object) => Promise<Response>)(url, { ...init, dispatcher }),
    async check(url) {
      if (!/^https?:$/.test(url.protocol)) throw refused("its address begins with neither http:// nor https://");
      if (url.username || url.password) throw refused("its address holds a user or a password");
      if (allow.names(url)) return;
      const literal = literalIn(url.hostname);
      if (literal !== undefined) vet([{ address: literal, family: 0 }], allow, "request");
      // A proxy looks names up itself. What this machine knows of the name counts all the same.
      else if (proxied) await lookUp(checkedLookup(lookup, allow, "request"), url.hostname);
    },
  };
}

interface Resolved {
  address: string;
  family: number;
}

/**
 * The addresses that may be connected to. A name that a request brought must lead to nothing but allowed ones. One that the operator
 * named may be inside, unless it was outside before; what is never meant (a .local name's link-local address) is left out.
 */
function vet(
  found: readonly Resolved[],
  allow: AllowList,
  whose: "request" | "operator",
  wasPublic = false,
): Resolved[] {
  const kinds = found.map((one) => ({ one, ...(allow.holds(one.address) ? allowed : kindOf(one.address)) }));
  const good = kinds.filter(
    ({ kind }) => kind === "public" || (kind === "inside" && whose === "operator" && !wasPublic),
  );
  const bad = kinds.find((one) => !good.includes(one));
  if (bad && (whose === "request" || good.length === 0)) {
    throw refused(
      `it leads to an address that may not be called (${wasPublic ? "it was a public one before" : bad.range})`,
    );
  }
  return good.map(({ one }) => one);
}

const allowed = { kind: "public", range: "allowed" } as const;

function checkedLookup(lookup: LookupFunction, allow: AllowList, whose: "request" | "operator"): LookupFunction {
  // Of the names that the operator gave, which are few: requests may bring any number of others.
  const publicBefore = new Set<string>();
  return (hostname, options, done) => {
    lookup(hostname, { ...options, all: true }, (error, answer, family) => {
      if (error) return done(error, []);
      try {
        const found = Array.isArray(answer) ? (answer as Resolved[]) : [{ address: answer, family: family ?? 0 }];
        if (found.length === 0) throw refused("it leads nowhere");
        const good = vet(found, allow, whose, publicBefore.has(hostname));
        const isPublic = good.every(({ address }) => kindOf(address).kind === "public");
        if (whose === "operator" && isPublic) publicBefore.add(hostname);
        if (options.all) done(null, good);
        else done(null, good[0]!.address, good[0]!.family);
      } catch (refusal) {
        done(refusal as Error, []);
      }
    });
  };
}

/** Throws what the check throws; a name that this machine cannot look up is the proxy's. */
function lookUp(lookup: LookupFunction, hostname: string): Promise<void> {
  return new Promise((resolve, reject) => {
    lookup(hostname, { all: true }, (error) => (isRefusal(error) ? reject(error) : resolve()));
  });
}
