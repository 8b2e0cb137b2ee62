/** The dashboard, whole: what it reads, who may look, and where it can be looked at. */
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { z } from "zod";
import { parseOptions } from "../options.ts";
import { createLog, type LogOptions, logSchema } from "../server/observe/log.ts";
import { observeAll } from "../server/observe/observer.ts";
import type { Route, ServerRoute } from "../server/route.ts";
import { createRouteServer } from "../server/route-server.ts";
import { plainParts, type ServerParts } from "../server/serve-exchange.ts";
import { openAssets } from "./http/assets.ts";
import { createControl, type ResumeCommand } from "./http/control.ts";
import { createLiveHub } from "./http/live-hub.ts";
import { leadTo } from "./http/page-routes.ts";
import { dashboardRoutes } from "./http/routes.ts";
import { sessionSecret } from "./http/secret.ts";
import { type Access, createSession, type Session } from "./http/session.ts";
import { openReader } from "./read/open-reader.ts";

export interface DashboardOptions {
  /** Folders of runs, or single runs. Default: `runs` of the working folder. */
  folders?: readonly string[] | undefined;
  /** Nothing can be changed: no notes, no stopping and resuming. Default false. */
  readOnly?: boolean | undefined;
  /** Where indexes are kept, and what cookies are made with. Default: the user's cache folder. */
  cacheDir?: string | undefined;
  /** The command that goes on with a run; undefined where none does. Default: none does. */
  resumeCommand?: ((dir: string) => ResumeCommand | undefined) | undefined;
  /** Of listen(): JSON lines of requests and events. Default: none. */
  log?: LogOptions | undefined;
}

export interface Dashboard {
  /** For createServer({ models, routes }): the page is at /ui/ there, and keys of scope "read" open it. */
  readonly routes: readonly ServerRoute[];
  /** A server of its own, for this machine alone. `link` opens the page in a browser, once; `port` 0 takes a free one. */
  listen(where?: { host?: string; port?: number }): Promise<{ url: string; port: number; link: string }>;
  close(): Promise<void>;
}

const aFunction = (value: unknown) => typeof value === "function";
const schema = z.strictObject({
  folders: z.array(z.string().min(1)).min(1).default(["runs"]),
  readOnly: z.boolean().default(false),
  cacheDir: z.string().min(1).optional(),
  resumeCommand: z.custom<DashboardOptions["resumeCommand"]>(aFunction, "a function was expected").optional(),
  log: logSchema.optional(),
});

/** Below the user's cache folder: what is lost there is made again. */
export function defaultCacheDir(env: Readonly<Record<string, string | undefined>> = process.env): string {
  const folder = env.XDG_CACHE_HOME || join(env.HOME || homedir(), ".cache");
  return join(folder, "stateset-agents", "dashboard");
}

const home: Route = {
  ...{ method: "GET", path: "/", scope: "open", maxBytes: 0, limited: false, summary: "Leads to the page." },
  answer: () => leadTo("ui/"),
};

export async function createDashboard(options: DashboardOptions = {}): Promise<Dashboard> {
  const o = parseOptions(schema, options, "createDashboard()");
  const folders = o.folders.map((folder) => resolve(folder));
  const cacheDir = o.cacheDir ?? defaultCacheDir();
  const { readOnly } = o;
  const reader = await openReader({ folders, cacheDir });
  const log = o.log && (await createLog(o.log));
  const hub = createLiveHub(() => reader.changes(), {
    onFailure: (error) => log?.event("changes-unreadable", { error }, "warn"),
  });
  const control = createControl(o.resumeCommand ?? (() => undefined));
  const assets = openAssets();
  const routesFor = (access: Access): { session: Session; routes: Route[] } => {
    const session = createSession({ access, folders, secret: () => sessionSecret(cacheDir) });
    return { session, routes: dashboardRoutes({ reader, hub, control, session, readOnly, assets }) };
  };
  const ending = new AbortController();
  const parts: ServerParts = {
    ...plainParts(ending.signal),
    onFailure: (error, requestId) => log?.event("failure", { requestId, error }, "error"),
    note: (event, fields, level) => log?.event(event, fields, level),
    observer: observeAll(log ? [log] : []),
  };
  const { session, routes } = routesFor("link");
  const server = createRouteServer({
    ...{ routes: [home, ...routes], parts, ending, defaultPort: 6006 },
    onClose: async () => {},
  });
  return {
    routes: routesFor("keys").routes,
    async listen(where = {}) {
      const { url, port } = await server.listen(where);
      // Somebody will look soon.
      void hub.begin();
      return { url, port, link: `${url}/ui/open?link=${session.newLink()}` };
    },
    async close() {
      hub.close();
      await server.drain(1000);
      await reader.close();
      await log?.close();
    },
  };
}
