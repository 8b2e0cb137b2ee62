/** A server to be attacked: a real model and a real run behind every route of the table, keys of every kind, and a valid request for each route. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { starterModelPath } from "@stateset-agents/starter-model";
import { createDashboard } from "../../src/dashboard/create-dashboard.ts";
import { builtPage } from "../../src/dashboard/http/assets.ts";
import { dashboardRoutes } from "../../src/dashboard/http/routes.ts";
import { openPolicy } from "../../src/policy/open-policy.ts";
import type { Policy } from "../../src/policy/policy.ts";
import { type AgentServer, createServer } from "../../src/server/create-server.ts";
import type { Keys } from "../../src/server/key/caller.ts";
import { createKey, type NewKey, revokeKey } from "../../src/server/key/key-file.ts";
import { openKeyStore } from "../../src/server/key/key-store.ts";
import type { Metrics } from "../../src/server/observe/metrics.ts";
import type { ServerOptions } from "../../src/server/options.ts";
import { nameOf, type Route } from "../../src/server/route.ts";
import { routesOf } from "../../src/server/routes.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "../../src/test-support/table-training.ts";
import { train } from "../../src/training/train.ts";
import { temporaryFolder } from "../temporary-folder.ts";

export const modelName = "starter";

/** The table as every server has it. */
export const routes: readonly Route[] = routesOf({
  maxBodyBytes: 4 << 20,
  health: { models: () => [], draining: () => false },
  metrics: {} as Metrics,
  weights: () => starterModelPath,
  more: dashboardRoutes({} as Parameters<typeof dashboardRoutes>[0]),
});

/** Routes whose answer has no end. */
export const endless = ["GET /ui/api/live"];

/** What a valid request gets where it is not 200: who has a key is in already, and the run is over. */
const answers: Readonly<Record<string, number>> = {
  "GET /ui": 303,
  "GET /ui/open": 303,
  "POST /ui/api/runs/:run/stop": 409,
  "POST /ui/api/runs/:run/resume": 409,
};

export function statusOf(route: Route): number {
  return answers[nameOf(route)] ?? 200;
}

const call = { id: "call00001", type: "function", function: { name: "look", arguments: '{"what": "shoe"}' } };
const tool = {
  type: "function",
  function: {
    name: "look",
    description: "Looks it up.",
    parameters: { type: "object", properties: { what: { type: "string", enum: ["shoe", "hat"] } }, required: ["what"] },
  },
};
const messages = [
  { role: "system", content: "Be brief." },
  { role: "user", content: "Hello", name: "Ann" },
  { role: "assistant", content: null, tool_calls: [call] },
  { role: "tool", tool_call_id: "call00001", content: "A shoe." },
  { role: "user", content: [{ type: "text", text: "And?" }] },
];

/** Valid requests. A route that takes a body and has none here cannot be attacked, and fails. */
const bodies: Readonly<Record<string, readonly object[]>> = {
  "POST /v1/chat/completions": [
    { model: modelName, messages, tools: [tool], max_tokens: 2, seed: 1, temperature: 0.5, stop: ["Zq"], n: 2 },
    {
      ...{ model: modelName, messages: messages.slice(0, 2), max_tokens: 3, stream: true, top_p: 0.9, user: "Ann" },
      ...{ stream_options: { include_usage: true }, logprobs: true, top_logprobs: 2, logit_bias: { "9": -5 } },
    },
    {
      ...{ model: modelName, messages, max_tokens: 4, tools: [tool], tool_choice: "required", priority: "batch" },
      ...{ chat_template_kwargs: { note: "a" }, return_token_ids: true, deadline: 60_000 },
    },
  ],
  "POST /v1/completions": [
    { model: modelName, prompt: "Hello", max_tokens: 2, seed: 1, logprobs: 1, echo: true },
    { model: modelName, prompt: ["Hello", "there"], max_tokens: 2, stream: true, return_token_ids: true },
  ],
  "POST /v1/embeddings": [{ model: modelName, input: ["Hello", "there"], encoding_format: "float" }],
  "POST /tokenize": [
    { model: modelName, prompt: "Hello", return_token_strs: true },
    { model: modelName, messages, tools: [tool] },
  ],
  "POST /detokenize": [{ model: modelName, tokens: [100, 200] }],
  "POST /admin/models/:model{.+}/reload": [{}],
  "POST /ui/api/notes": [
    { run: "attacked", tags: ["fine"], note: "As it should.", archived: false },
    { run: "attacked", note: "Once.", idempotencyKey: "k" },
  ],
  "POST /ui/api/runs/:run/stop": [{}],
  "POST /ui/api/runs/:run/resume": [{}],
  "POST /ui/api/session": [{}],
  "POST /ui/api/csp-report": [
    { "csp-report": { "effective-directive": "script-src-elem", "blocked-uri": "inline", "line-number": 1 } },
  ],
};

export function bodiesOf(route: Route): readonly (object | undefined)[] {
  if (route.maxBytes === 0) return [undefined];
  const own = bodies[nameOf(route)];
  if (!own) throw new Error(`Give ${nameOf(route)} a valid request in ${import.meta.url}.`);
  return own;
}

/** What the names of a path are there; where there is none, the model's. */
const names: Readonly<Record<string, string>> = {
  run: "attacked",
  trajectory: "attacked:1:0",
  group: "attacked:1:s1-g0",
  file: readdirSync(join(builtPage(), "assets")).find((name) => name.endsWith(".js"))!,
};

/** What routes must be asked with. */
const queries: Readonly<Record<string, string>> = {
  "/ui/open": "?link=none",
  "/ui/api/runs/:run/series": "?metrics=reward",
  "/ui/api/compare": "?runs=attacked",
  "/ui/api/compare/series": "?runs=attacked&metric=reward",
};

/** The path with its names filled in. */
export function pathOf({ path }: Pick<Route, "path">, name?: string): string {
  const filled = path.replace(/:(\w+)(?:\{[^}]*\})?/g, (_, own: string) => name ?? names[own] ?? modelName);
  return `${filled}${queries[path] ?? ""}`;
}

export function hasNames({ path }: Route): boolean {
  return path.includes(":");
}

export interface Asked {
  key?: string | undefined;
  body?: unknown;
  headers?: Record<string, string>;
  name?: string;
  signal?: AbortSignal;
}

/** As a client would send it: text and bytes as they are, anything else as JSON. */
export function requestOf(route: Pick<Route, "method" | "path">, { key, body, headers, name, signal }: Asked): Request {
  const raw = typeof body === "string" || body instanceof Uint8Array;
  return new Request(`http://localhost${pathOf(route, name)}`, {
    method: route.method,
    headers: {
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...(route.path.startsWith("/ui/") && route.method === "POST" && { "x-stateset-ui": "1" }),
      ...headers,
    },
    ...(body !== undefined && { body: raw ? (body as string) : JSON.stringify(body) }),
    ...(signal && { signal }),
  });
}

export interface Attacked {
  server: AgentServer;
  policy: Policy;
  keys: Keys;
  keyFile: string;
  newKey(options?: Partial<NewKey>): Promise<string>;
  ask(route: Pick<Route, "method" | "path">, asked?: Asked): Promise<Response>;
  close(): Promise<void>;
}

/** All of an answer; of one that has no end, its beginning. */
export async function textOf(response: Response): Promise<string> {
  const forever = response.headers.get("content-type")?.startsWith("text/event-stream");
  if (!forever || !response.body) return response.text();
  const reader = response.body.getReader();
  const { value } = await reader.read();
  await reader.cancel();
  return Buffer.from(value ?? []).toString("utf8");
}

/** Of a run with everything a route may be asked for; made once. */
let runs: Promise<string> | undefined;

async function attackedRuns(): Promise<string> {
  const folder = temporaryFolder();
  await train({
    ...{ agent: tableAgent().agent, environment: tableEnvironment(), reward: new FunctionReward(politeShare) },
    ...{ dir: join(folder, "attacked"), steps: 1, groupsPerStep: 2, groupSize: 2 },
  });
  return folder;
}

export const allScopes: NonNullable<NewKey["scopes"]> = ["infer", "read", "admin", "metrics"];

/** With the starter model, unless it is another policy's turn. */
export async function openAttacked(options: Partial<ServerOptions> = {}, given?: Policy): Promise<Attacked> {
  const policy = given ?? (await openPolicy({ model: starterModelPath, threads: 1 }));
  const keyFile = join(temporaryFolder(), "keys.json");
  const newKey = async (over: Partial<NewKey> = {}) =>
    (await createKey(keyFile, { name: "k", scopes: allScopes, ...over })).token;
  await newKey();
  const keys = openKeyStore(keyFile, { now: Date.now, elapsed: tick() });
  runs ??= attackedRuns();
  const dashboard = await createDashboard({ folders: [await runs], cacheDir: temporaryFolder() });
  const server = await createServer({
    ...{ models: { [modelName]: policy }, keys, weights: () => starterModelPath, routes: dashboard.routes },
    ...options,
  });
  return {
    ...{ server, policy, keys, keyFile, newKey },
    ask: (route, asked = {}) => server.fetch(requestOf(route, asked)),
    async close() {
      await server.close();
      await dashboard.close();
      keys.close();
      await policy.close();
    },
  };
}

/** A clock by which it is always time to look at the file again. */
function tick(): () => number {
  let now = 0;
  return () => {
    now += 1000;
    return now;
  };
}

export async function revokedKey({ keyFile }: Attacked): Promise<string> {
  const { token, key } = await createKey(keyFile, { name: "r", scopes: allScopes });
  await revokeKey(keyFile, key.id);
  return token;
}

export async function expiredKey({ keyFile }: Attacked): Promise<string> {
  const expiresAt = new Date(Date.now() - 1000).toISOString();
  return (await createKey(keyFile, { name: "e", scopes: allScopes, expiresAt }, Date.now() - 60_000)).token;
}

/** The body of an error, which has exactly OpenAI's shape. Throws for anything else. */
export async function errorOf(response: Response): Promise<{ message: string; type: string; code: string | null }> {
  const text = await response.text();
  const { error, ...rest } = JSON.parse(text) as { error: { message: string; type: string; code: string | null } };
  const names = Object.keys(error).sort().join();
  if (Object.keys(rest).length > 0 || names !== "code,message,param,type") throw new Error(`No error of ours: ${text}`);
  if (response.headers.get("content-type") !== "application/json") throw new Error("An error that is not JSON.");
  if (!/^[\w.-]{1,128}$/.test(response.headers.get("x-request-id") ?? "")) throw new Error("An error without an id.");
  return error;
}
