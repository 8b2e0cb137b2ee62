/** Who may ask what, over every route of the table: whatever is not allowed is refused. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { scopes } from "../../src/server/key/caller.ts";
import { nameOf, type Route } from "../../src/server/route.ts";
import {
  type Attacked,
  bodiesOf,
  errorOf,
  expiredKey,
  hasNames,
  openAttacked,
  pathOf,
  revokedKey,
  routes,
  statusOf,
  textOf,
} from "./attacked-server.ts";

let attacked: Attacked;
let key: string;
beforeAll(async () => {
  attacked = await openAttacked();
  key = await attacked.newKey();
});
afterAll(() => attacked.close());

const named = routes.map((route) => [nameOf(route), route] as const);
const guarded = named.filter(([, { scope }]) => scope !== "open");
const unknownKey = `sk-ss-0123456789abcdef-${"a".repeat(43)}`;

it("nothing is open but probes and the dashboard's empty page", () => {
  const open = named.filter(([, { scope }]) => scope === "open").map(([name]) => name);
  expect(open).toEqual([
    ...["GET /healthz", "GET /readyz"],
    ...["GET /ui", "GET /ui/", "GET /ui/assets/:file", "GET /ui/open", "POST /ui/api/csp-report"],
  ]);
});

describe.each(named)("%s", (_, route) => {
  it("answers a valid request of a key that may ask", async () => {
    for (const body of bodiesOf(route)) {
      const response = await attacked.ask(route, { key, body });
      const text = await textOf(response);
      expect(response.status, text).toBe(statusOf(route));
      expect(response.headers.get("x-content-type-options")).toBe("nosniff");
      expect(response.headers.get("access-control-allow-origin")).toBeNull();
      for (const banner of ["server", "x-powered-by"]) expect(response.headers.get(banner)).toBeNull();
    }
  });

  it("says 405 to other methods, and which it takes", async () => {
    for (const method of ["PUT", "DELETE", "PATCH", "OPTIONS", route.method === "GET" ? "POST" : "GET"]) {
      const request = new Request(`http://localhost${pathOf(route)}`, { method });
      const response = await attacked.server.fetch(request);
      expect([method, response.status]).toEqual([method, 405]);
      expect(response.headers.get("allow")!.split(", ")).toContain(route.method);
      expect((await errorOf(response)).code).toBe("method_not_allowed");
    }
  });
});

describe.each(guarded)("%s", (_, route) => {
  const refused = async (status: number, sent: Parameters<Attacked["ask"]>[1]) => {
    // Who may not ask learns nothing of what is wrong with the request.
    for (const body of route.maxBytes > 0 ? [...bodiesOf(route), "{", ""] : [undefined]) {
      const response = await attacked.ask(route, { ...sent, body });
      const error = await errorOf(response);
      expect(response.status, error.message).toBe(status);
      expect(error.type).toBe(status === 401 ? "authentication_error" : "permission_error");
      if (status === 401) expect(response.headers.get("www-authenticate")).toBe("Bearer");
      expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    }
  };

  it("refuses whoever has no key, or one that is wrong, malformed, revoked or expired", async () => {
    const revoked = await revokedKey(attacked);
    const expired = await expiredKey(attacked);
    await refused(401, {});
    for (const wrong of [unknownKey, `${key.slice(0, -1)}${key.endsWith("A") ? "B" : "A"}`, revoked, expired])
      await refused(401, { key: wrong });
    for (const authorization of [
      ...["", "Bearer", "Bearer ", `bearer  ${key}`, `Basic ${key}`, key, `Bearer ${key} x`, `Bearer ${key},${key}`],
      ...[`Bearer ${"a".repeat(5000)}`, "Bearer é", `Bearer "${key}"`, "Bearer null", "Bearer undefined"],
    ])
      await refused(401, { headers: { authorization } });
    await refused(401, { headers: { "x-api-key": key, cookie: `authorization=Bearer ${key}` } });
    const inPath = `${pathOf(route)}?api_key=${key}&authorization=Bearer%20${key}`;
    const response = await attacked.server.fetch(new Request(`http://localhost${inPath}`, { method: route.method }));
    expect(response.status).toBe(401);
  });

  it("refuses keys of every other scope", async () => {
    const others = scopes.filter((scope) => scope !== route.scope);
    await refused(403, { key: await attacked.newKey({ scopes: others }) });
  });

  it("knows no model but those of the key", async () => {
    const other = await attacked.newKey({ models: ["another"] });
    for (const body of bodiesOf(route)) {
      const response = await attacked.ask(route, { key: other, body });
      if (route.path.startsWith("/ui/")) {
        // Runs are no models.
        await textOf(response);
        expect(response.status).toBe(statusOf(route));
        continue;
      }
      if (!hasNames(route) && !(body && "model" in body)) {
        expect(response.status).toBe(200);
        continue;
      }
      expect([response.status, (await errorOf(response)).code]).toEqual([404, "model_not_found"]);
    }
  });
});

it.each(["/", "/v1", "/v1/", "/v1/chat", "/V1/models", "//v1/models", "/v1/models/../../healthz/x", "/.env", "/admin"])(
  "says 404 to %s, to whoever asks",
  async (path) => {
    for (const method of ["GET", "POST", "OPTIONS"]) {
      const request = new Request(`http://localhost${path}`, { method, headers: { authorization: `Bearer ${key}` } });
      const response = await attacked.server.fetch(request);
      expect([response.status, (await errorOf(response)).code]).toEqual([404, "unknown_route"]);
    }
  },
);

it("lists no model that the key may not use", async () => {
  const other = await attacked.newKey({ models: ["another"] });
  const list = await attacked.ask({ method: "GET", path: "/v1/models" }, { key: other });
  expect(await list.json()).toEqual({ object: "list", data: [] });
});

it("tells whoever has no key only whether it is ready, and who has one why not", async () => {
  const ready: Pick<Route, "method" | "path"> = { method: "GET", path: "/readyz" };
  expect(await (await attacked.ask(ready)).json()).toEqual({ status: "ready" });
  expect(await (await attacked.ask(ready, { key })).json()).toEqual({ status: "ready", reasons: [] });
  const stale = [unknownKey, await revokedKey(attacked), await expiredKey(attacked)];
  const health: typeof ready = { method: "GET", path: "/healthz" };
  for (const sent of [...stale.map((one) => ({ key: one })), { headers: { authorization: "Basic nonsense" } }]) {
    const answers = [await attacked.ask(ready, sent), await attacked.ask(health, sent)];
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect(await answers[0]!.json()).toEqual({ status: "ready" });
  }
});

it("counts what a key asks for, be it valid or not", async () => {
  const chat = routes.find(({ path }) => path === "/v1/chat/completions")!;
  const few = await attacked.newKey({ requestsPerMinute: 3 });
  const statuses: number[] = [];
  for (const body of ["{", "[]", "{}", bodiesOf(chat)[0]])
    statuses.push((await attacked.ask(chat, { key: few, body })).status);
  expect(statuses).toEqual([400, 400, 400, 429]);
});
