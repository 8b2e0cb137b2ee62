/** The `serve` command: opens agents, opens a port, says who may call, and ends when it is told to. */
import { closeSync, existsSync, openSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { MultiTurnAgent } from "../../agent/multi-turn-agent.ts";
import { createDashboard, defaultCacheDir } from "../../dashboard/create-dashboard.ts";
import { messageOf, StatesetError } from "../../error.ts";
import { findConfig, loadProject } from "../../project/load-project.ts";
import { checkSections } from "../../project/sections.ts";
import { findAgent } from "../../run/load-agent.ts";
import { createServer } from "../../server/create-server.ts";
import { requireKeysBeyondLoopback } from "../../server/guard/host.ts";
import type { Keys } from "../../server/key/caller.ts";
import { openKeyStore, staticKeys } from "../../server/key/key-store.ts";
import type { LogOptions } from "../../server/observe/log.ts";
import { patternOf } from "../../server/observe/redact.ts";
import { alertSender } from "../../telemetry/alerts.ts";
import { checkpointPath } from "../checkpoint-path.ts";
import { defaultKeyFile } from "../commands/keys.ts";
import { resumeCommand } from "../dashboard/resume-command.ts";
import { CliExit } from "../failure.ts";
import { type CliIo, print, printJson } from "../io.ts";
import { type OpenAgentFlags, openAgent } from "../open-agent.ts";
import { untilTold } from "../until-told.ts";
import { banner } from "./banner.ts";

export interface ServeFlags extends Pick<OpenAgentFlags, "config" | "engine" | "gpus" | "threads" | "stub"> {
  model?: string[];
  host: string;
  port: number;
  apiKey?: string;
  authToken?: string;
  keys?: string | true;
  slots?: number;
  cache?: number;
  maxWaiting?: number;
  deadline?: number;
  drain?: number;
  allowHost?: string[];
  responseCache?: number;
  log?: string;
  logContent?: boolean;
  redact?: string[];
  alert?: string;
  ui: boolean;
  uiRuns?: string[];
  json?: boolean;
}

/** What a reply that is kept may take, on the average. */
const keptReplyBytes = 8192;

export async function runServe(agents: readonly string[], flags: ServeFlags, io: CliIo): Promise<void> {
  const named = nameAll(agents, flags, io);
  const log = await logOf(flags, io);
  const keys = keysOf(flags, io);
  requireKeysBeyondLoopback(flags.host, keys);
  const { engine, gpus, threads, slots, stub, config } = flags;
  const own = { engine, gpus, threads, slots, stub, config, cacheBytes: flags.cache };
  const open = (what: string | undefined) => async (): Promise<MultiTurnAgent> => {
    const agent = await openAgent(...placeOf(what, own, io));
    if (agent instanceof MultiTurnAgent) return agent;
    await agent.close();
    throw new StatesetError("INVALID_OPTION", `An agent of the class ${agent.constructor.name} cannot be served.`, {
      hint: "Derive it from MultiTurnAgent or ToolAgent.",
    });
  };
  const dashboard = flags.ui ? await openDashboard(flags, io) : undefined;
  const server = await createServer({
    models: Object.fromEntries([...named].map(([name, what]) => [name, open(what)])),
    ...{ keys, log, maxWaiting: flags.maxWaiting, deadlineMs: flags.deadline, hosts: flags.allowHost },
    ...(flags.responseCache !== undefined && {
      responseCache: { entries: flags.responseCache, bytes: flags.responseCache * keptReplyBytes },
    }),
    ...(flags.alert !== undefined && { onAlert: alertSender({ webhook: flags.alert }) }),
    weights: (model) => weightsOf(named.get(model), io),
    routes: dashboard?.routes,
  }).catch(async (error: unknown) => {
    await dashboard?.close();
    throw error;
  });
  // From here on a signal ends it well: whoever reads that it listens may send one at once.
  const told = untilTold(server, io);
  try {
    const { url } = await server.listen({ host: flags.host, port: flags.port });
    const who = { keys: flags.keys !== undefined, key: keys !== undefined, ui: flags.ui };
    const ui = flags.ui ? `${url}/ui/` : null;
    if (flags.json) printJson(io, { type: "serving", url, models: server.models(), keys: keys !== undefined, ui });
    else print(io, ...banner(url, server.models(), who, io));
    const status = await told.end;
    await server.drain(flags.drain ?? 30_000);
    // SIGTERM is how a server is ended; the others say what ended it.
    if (status !== 143) throw new CliExit(status);
  } finally {
    told.leave();
    await server.close();
    await dashboard?.close();
    keys?.close();
  }
}

function openDashboard({ uiRuns = ["runs"] }: ServeFlags, io: CliIo): ReturnType<typeof createDashboard> {
  return createDashboard({
    ...{ folders: uiRuns.map((folder) => resolve(io.cwd, folder)), cacheDir: defaultCacheDir(io.env) },
    resumeCommand: (dir) => resumeCommand(dir, io),
  });
}

/** What is served, by name: a path's last part, a hub id as it is. */
function nameAll(agents: readonly string[], { model = [] }: ServeFlags, io: CliIo): Map<string, string | undefined> {
  const named = new Map<string, string | undefined>();
  const add = (name: string, what: string | undefined) => {
    if (named.has(name)) {
      throw new StatesetError("INVALID_OPTION", `Two agents would be called "${name}".`, {
        hint: "Name them: --model a=runs/one --model b=runs/two.",
      });
    }
    named.set(name, what);
  };
  for (const what of agents) add(existsSync(checkpointPath(what, io)) ? basename(what) : what, what);
  for (const text of model) {
    const [, name, what] = /^([^=]+)=(.+)$/.exec(text) ?? [];
    if (name === undefined) {
      throw new StatesetError("INVALID_OPTION", `--model ${text} does not say what is called what.`, {
        hint: "Write it as --model support=runs/support.",
      });
    }
    add(name, what);
  }
  if (named.size === 0) add("default", undefined);
  return named;
}

/** A folder, a run or a file as chat takes it; what is none and looks like a hub id is one. */
function placeOf(what: string | undefined, flags: OpenAgentFlags, io: CliIo): Parameters<typeof openAgent> {
  if (what === undefined || existsSync(checkpointPath(what, io)) || !isHubId(what, io)) return [what, flags, io];
  return [undefined, { ...flags, model: what }, io];
}

/** Not what lies, or would lie, in a folder here: a run that is misspelt is no model of somebody's. */
function isHubId(what: string, io: CliIo): boolean {
  const [, owner] = /^(\w[\w.-]*)\/[\w.-]+$/.exec(what) ?? [];
  return owner !== undefined && owner !== "runs" && !existsSync(resolve(io.cwd, owner));
}

function weightsOf(what: string | undefined, io: CliIo): string {
  if (what === undefined) {
    throw new StatesetError("CHECKPOINT_NOT_FOUND", "This model was not opened from a run or a folder.");
  }
  const place = findAgent(checkpointPath(what, io));
  return place.kind === "model" ? place.dir : join(place.dir, "policy");
}

/** Keys that were given by hand. */
function tokensOf({ apiKey, authToken }: ServeFlags, io: CliIo): string[] {
  return [apiKey, authToken, io.env.STATESET_API_KEY].filter(
    (token) => token !== undefined && token !== "",
  ) as string[];
}

function keysOf(flags: ServeFlags, io: CliIo): Keys | undefined {
  const { keys, apiKey, authToken } = flags;
  // What a shell makes of a variable that is not set: whoever names a key does not mean to serve without one.
  if (apiKey === "" || authToken === "") {
    throw new StatesetError("INVALID_OPTION", `${apiKey === "" ? "--api-key" : "--auth-token"} is empty.`, {
      hint: "Give the key, or leave the flag out.",
    });
  }
  const tokens = tokensOf(flags, io);
  if (keys === undefined) return tokens.length > 0 ? staticKeys(tokens) : undefined;
  if (tokens.length > 0) {
    throw new StatesetError("INVALID_OPTION", "--keys and a key of its own both say who may call.", {
      hint: "Give one of them.",
    });
  }
  return openKeyStore(keys === true ? defaultKeyFile(io.env) : resolve(io.cwd, keys));
}

async function logOf(flags: ServeFlags, io: CliIo): Promise<LogOptions | undefined> {
  const { log = "stderr", logContent = false } = flags;
  const patterns = await patternsOf(flags, io);
  if (log === "none") return undefined;
  const destination = log === "stderr" || log === "stdout" ? log : { file: writable(resolve(io.cwd, log), log) };
  // They may look like anything, and somebody may write them into a message.
  const tokens = tokensOf(flags, io).map((token) => token.replace(/[^A-Za-z0-9]/g, "\\$&"));
  return { destination, content: logContent, redact: [...tokens, ...patterns] };
}

/** What the flags and the configuration keep out of the log, whichever agents are served. */
async function patternsOf({ redact = [], config }: ServeFlags, io: CliIo): Promise<string[]> {
  for (const pattern of redact) patternOf(pattern, `--redact ${pattern}`);
  if (config === undefined && findConfig(io.cwd) === undefined) return redact;
  const { file, config: project } = await loadProject(config, io.cwd);
  checkSections(project, file);
  const own = project.serve?.redact ?? [];
  for (const pattern of own) patternOf(pattern, `${file}: serve: redact`);
  return [...redact, ...own];
}

/** A server lives on when its log fails later; one that can never be written is a mistake. */
function writable(file: string, named: string): string {
  try {
    closeSync(openSync(file, "a", 0o600));
    return file;
  } catch (cause) {
    throw new StatesetError("INVALID_OPTION", `--log ${named} cannot be written: ${messageOf(cause)}.`, { cause });
  }
}
