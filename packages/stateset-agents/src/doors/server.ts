/** What `stateset-agents/server` offers: agents behind the APIs that people's programs speak. */
export { createDashboard, type Dashboard, type DashboardOptions } from "../dashboard/create-dashboard.ts";
export type { ResumeCommand } from "../dashboard/http/control.ts";
export { type AgentServer, createServer } from "../server/create-server.ts";
export { type ErrorBody, HttpError, type HttpErrorDetails } from "../server/http-error.ts";
export type { Caller, Keys, Scope } from "../server/key/caller.ts";
export { createKey, type NewKey, revokeKey, type StoredKey } from "../server/key/key-file.ts";
export { openKeyStore, staticKeys } from "../server/key/key-store.ts";
export type { LogOptions } from "../server/observe/log.ts";
export type { ServerOptions } from "../server/options.ts";
export type { ServerRoute } from "../server/route.ts";
export type { RouteServer } from "../server/route-server.ts";
export type { ModelSource } from "../server/served-model.ts";
