import { HttpError } from "../http-error.ts";
import type { Caller, Keys, Scope } from "./caller.ts";

const why = {
  unknown: "The API key is not known.",
  revoked: "The API key was revoked.",
  expired: "The API key has expired.",
} as const;

/** Who sends this Authorization header; throws 401. Nothing that was sent is repeated in the answer. */
export function authenticate(keys: Keys, authorization: string | null | undefined): Caller {
  const token = /^Bearer ([\x21-\x7e]{1,512})$/i.exec(authorization ?? "")?.[1];
  if (token === undefined) {
    throw unauthorized(authorization ? "The Authorization header is not `Bearer KEY`." : "No API key was sent.");
  }
  const found = keys.find(token);
  if (found.kind !== "ok") throw unauthorized(why[found.kind]);
  return found.caller;
}

function unauthorized(message: string): HttpError {
  return new HttpError(401, message, { code: "invalid_api_key", headers: { "www-authenticate": "Bearer" } });
}

/** Throws 403 for a caller whose key does not have the scope. */
export function requireScope(caller: Caller, scope: Scope): void {
  if (caller.scopes.has(scope)) return;
  throw new HttpError(403, `This API key does not have the scope "${scope}".`, { code: "insufficient_scope" });
}
