/** What `stateset-agents/server` offers: agents behind the APIs that people's programs speak. */
export { type AgentServer, createServer } from "../server/create-server.ts";
export { type ErrorBody, HttpError, type HttpErrorDetails } from "../server/http-error.ts";
export type { Caller, Keys, Scope } from "../server/key/caller.ts";
export { createKey, type NewKey, revokeKey, type StoredKey } from "../server/key/key-file.ts";
export { openKeyStore, staticKeys } from "../server/key/key-store.ts";
export type { LogOptions } from "../server/observe/log.ts";
export type { ServerOptions } from "../server/options.ts";
export type { ModelSource } from "../server/served-model.ts";
