/**
 * Whom a request was meant for. A page in a browser on the same machine can make its own name lead to 127.0.0.1 (rebinding) and then
 * asks with that name in Host; and any page can send requests, with its own address in Origin. Both are refused.
 */
import { StatesetError } from "../../error.ts";
import { urlHost } from "../../network.ts";
import { HttpError } from "../http-error.ts";

export interface HostRules {
  /** Whether the server can be reached from this machine alone. Then only names of this machine are taken. */
  loopback: boolean;
  /** More names that requests may be for, with or without a port. Where the server is open to others: only these, when there are any. */
  hosts?: readonly string[];
  /** Pages that may ask, such as "https://app.example". They get no CORS headers. */
  origins?: readonly string[];
}

/** Throws 400 for no Host or a malformed one, 403 for one that is not ours and for a foreign Origin. */
export function createHostGuard({ loopback, hosts = [], origins = [] }: HostRules): (headers: Headers) => void {
  const names = new Set(hosts.map((host) => host.toLowerCase()));
  const pages = new Set(origins.map((origin) => origin.toLowerCase().replace(/\/$/, "")));
  return (headers) => {
    const given = headers.get("host") ?? "";
    const host = hostOf(given);
    if (!host) throw new HttpError(400, "The Host header is missing or malformed.", { code: "invalid_host" });
    const known = names.has(host.name) || names.has(given.toLowerCase());
    if (!known && (loopback ? !isLoopbackName(host.name) : names.size > 0)) {
      throw new HttpError(403, "The Host header names another server.", { code: "invalid_host" });
    }
    const origin = headers.get("origin")?.toLowerCase();
    if (origin === undefined || pages.has(origin)) return;
    if (origin === `http://${given.toLowerCase()}` || origin === `https://${given.toLowerCase()}`) return;
    throw new HttpError(403, "Requests from pages of other origins are refused.", { code: "invalid_origin" });
  };
}

/** Without the port; undefined for what is no host. */
function hostOf(header: string): { name: string } | undefined {
  const [, name] = /^(\[[\da-f:.]+\]|[a-z\d._-]+)(?::\d{1,5})?$/i.exec(header) ?? [];
  return name === undefined ? undefined : { name: name.toLowerCase() };
}

/** Refuses to listen to other machines where nobody would be asked who he is. */
export function requireKeysBeyondLoopback(host: string, keys: object | undefined): void {
  if (keys || isLoopbackName(urlHost(host))) return;
  throw new StatesetError("INVALID_OPTION", `Without keys the server listens on this machine alone, not on ${host}.`, {
    hint: "Give it keys, or leave the host out.",
  });
}

/** Names and addresses that lead to this machine whatever a DNS server says. */
export function isLoopbackName(name: string): boolean {
  return name === "localhost" || name === "[::1]" || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(name);
}
