import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliDecompressSync } from "node:zlib";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Json } from "../../../test/cli.ts";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { HttpError } from "../../server/http-error.ts";
import type { Keys } from "../../server/key/caller.ts";
import { staticKeys } from "../../server/key/key-store.ts";
import { createRouteServer } from "../../server/route-server.ts";
import { plainParts, type ServerParts } from "../../server/serve-exchange.ts";
import { decodePacked, encodePacked } from "../api/packed.ts";
import type { Change, Reader } from "../read/reader.ts";
import { openAssets } from "./assets.ts";
import { createControl } from "./control.ts";
import { createLiveHub } from "./live-hub.ts";
import { dashboardRoutes } from "./routes.ts";
import { type Access, createSession } from "./session.ts";

const host = "127.0.0.1:6006";

function pageFolder(): string {
  const dir = temporaryFolder();
  mkdirSync(join(dir, "dist", "assets"), { recursive: true });
  writeFileSync(join(dir, "secret"), "canary-4711");
  writeFileSync(join(dir, "dist", "index.html"), "<!doctype html><title>page</title>");
  writeFileSync(join(dir, "dist", "assets", "index-abc.js"), "let a = 1;\n".repeat(500));
  writeFileSync(join(dir, "dist", "assets", "notes.txt"), "canary-4711");
  symlinkSync(join(dir, "secret"), join(dir, "dist", "assets", "link"));
  return join(dir, "dist");
}

interface Opened {
  access?: Access;
  keys?: Keys;
  readOnly?: boolean;
  page?: string;
}

function opened({ access = "link", keys, readOnly = false, page = pageFolder() }: Opened = {}) {
  const runs = temporaryFolder();
  mkdirSync(join(runs, "one"));
  const waiting: Change[] = [];
  // What is not asked for is not there.
  const reader = {
    runs: async () => ({ rows: [], total: 0, next: null, folders: [], fields: [], problems: [] }),
    run: async (key: string) => ({ key }),
    series: async (_: string, query: object) => encodePacked({ query }, { a: new Float32Array(2000) }),
    csv: async (_: string, metrics?: string[]) => `step,${metrics?.join()}\n`,
    changes: async () => waiting.splice(0),
    dirOf: async (key: string) => {
      if (key !== "one") throw new HttpError(404, `There is no run "${key}".`, { param: "run" });
      return join(runs, key);
    },
  } as unknown as Reader;
  const session = createSession({ access, secret: () => new Uint8Array(32), folders: [runs] });
  const hub = createLiveHub(() => reader.changes(), { everyMs: 10 });
  const ending = new AbortController();
  const notes: object[] = [];
  const parts: ServerParts = {
    ...plainParts(ending.signal),
    ...{ keys, note: (event, fields) => void notes.push({ event, ...fields }) },
  };
  const control = createControl(() => undefined);
  const routes = dashboardRoutes({ reader, hub, control, session, readOnly, assets: openAssets(page) });
  const server = createRouteServer({ routes, parts, ending, defaultPort: 0, onClose: async () => hub.close() });
  onTestFinished(() => server.close());
  const ask = (path: string, init: RequestInit = {}) =>
    server.fetch(new Request(`http://${host}${path}`, { ...init, headers: { host, ...init.headers } }));
  const cookie = () => session.cookieFor(new Headers({ host })).split(";")[0]!;
  const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    ask(path, {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "content-type": "application/json", ...headers },
    });
  return { ask, post, session, cookie, server, notes, runs, happen: (change: Change) => void waiting.push(change) };
}

const ours = { "x-stateset-ui": "1", origin: `http://${host}` };
const errorOf = async (response: Response) => ((await response.json()) as Json).error as Json;

describe("the page", () => {
  it("is open, may run nothing but its own files, and is asked for each time", async () => {
    const { ask } = opened();
    const page = await ask("/ui/");
    expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    expect(page.headers.get("cache-control")).toBe("no-cache");
    expect(page.headers.get("content-security-policy")).toBe(
      "default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; " +
        "form-action 'self'; require-trusted-types-for 'script'; report-uri api/csp-report",
    );
    for (const [name, value] of [
      ["x-content-type-options", "nosniff"],
      ["referrer-policy", "no-referrer"],
    ])
      expect(page.headers.get(name!)).toBe(value);
    const from = await ask("/ui", { redirect: "manual" });
    expect([from.status, from.headers.get("location")]).toEqual([303, "ui/"]);
  });

  it("has files that a browser keeps, packed where it takes them so", async () => {
    const { ask } = opened();
    const file = await ask("/ui/assets/index-abc.js", { headers: { "accept-encoding": "br" } });
    expect(file.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
    expect(file.headers.get("content-type")).toBe("text/javascript; charset=utf-8");
    const bytes = Buffer.from(await file.arrayBuffer());
    expect(brotliDecompressSync(bytes).toString("utf8")).toContain("let a = 1;");
    expect((await (await ask("/ui/assets/index-abc.js")).text()).length).toBe(5500);
  });

  it("has no file but those of its table, whatever an address spells", async () => {
    const { ask } = opened();
    for (const name of [
      ...["..%2findex.html", "..%2f..%2fsecret", "%2e%2e%2fsecret", "link", "notes.txt", "nothing.js", "%00", "."],
      ...["..%5csecret", "constructor", "__proto__", "index-abc.js%00", "/etc/passwd", "%2fetc%2fpasswd"],
    ]) {
      const response = await ask(`/ui/assets/${name}`);
      expect([name, response.status]).toEqual([name, 404]);
      expect(await response.text()).not.toContain("canary");
    }
  });

  it("says how it is built where it is not, and is there once it was", async () => {
    const page = temporaryFolder();
    const { ask } = opened({ page });
    const missing = await ask("/ui/");
    expect([missing.status, await missing.text()]).toEqual([503, expect.stringContaining("npm run build")]);
    writeFileSync(join(page, "index.html"), "<!doctype html>");
    expect((await ask("/ui/")).status).toBe(200);
  });
});

describe("the link", () => {
  it("lets one browser in, once, and leads to the page", async () => {
    const { ask, session } = opened();
    expect((await ask("/ui/api/runs")).status).toBe(401);
    const link = `/ui/open?link=${session.newLink()}`;
    const first = await ask(link, { redirect: "manual" });
    expect([first.status, first.headers.get("location")]).toEqual([303, "./"]);
    const cookie = first.headers.get("set-cookie")!.split(";")[0]!;
    const runs = await ask("/ui/api/runs", { headers: { cookie } });
    expect([runs.status, await runs.json()]).toMatchObject([200, { rows: [], readOnly: false }]);
    const again = await ask(link);
    expect([again.status, again.headers.get("set-cookie")]).toEqual([403, null]);
    expect(await again.text()).toContain("used already: it works once. Start `npx stateset-agents dashboard` again");
    // Who is in already is not sent away.
    expect((await ask(link, { redirect: "manual", headers: { cookie } })).status).toBe(303);
  });

  it("cannot be guessed", async () => {
    const { ask, session } = opened();
    const link = session.newLink();
    for (const wrong of [link.slice(0, -1), `${link}A`, link.toLowerCase(), "x", "%00", "undefined"]) {
      const response = await ask(`/ui/open?link=${wrong}`);
      expect([wrong, response.status, response.headers.get("set-cookie")]).toEqual([wrong, 403, null]);
    }
    for (const query of ["", "?link=", "?link=a&link=b", `?lnk=${link}`])
      expect((await ask(`/ui/open${query}`)).status).toBe(400);
    expect((await ask(`/ui/open?link=${link}`, { redirect: "manual" })).status).toBe(303);
  });
});

describe("answers", () => {
  it("are checked by their query, and keep the strict headers", async () => {
    const { ask, cookie } = opened();
    const headers = { cookie: cookie() };
    const wrong = await ask("/ui/api/runs?filtr=a", { headers });
    expect([wrong.status, await errorOf(wrong)]).toMatchObject([
      400,
      { code: "unknown_parameter", param: "filtr", message: 'Unknown parameter "filtr". Did you mean "filter"?' },
    ]);
    const run = await ask("/ui/api/runs/one", { headers });
    expect(run.headers.get("content-security-policy")).toBe("default-src 'none'; frame-ancestors 'none'");
    expect(run.headers.get("cache-control")).toBe("no-store");
    expect(await run.json()).toEqual({
      ...{ key: "one", readOnly: false },
      stop: { possible: false, why: "It is not running.", command: null, asked: false },
      resume: { possible: false, why: expect.stringContaining("a program of its own"), command: null },
    });
    expect((await ask("/ui/api/runs/two", { headers })).status).toBe(404);
  });

  it("of numbers are packed", async () => {
    const { ask, cookie } = opened();
    // As JavaScript writes small and large numbers.
    const spelt = "/ui/api/runs/one/series?metrics=reward&from=1e-7&to=1e%2B21";
    expect((await ask(spelt, { headers: { cookie: cookie() } })).status).toBe(200);
    const series = await ask("/ui/api/runs/one/series?metrics=reward&points=10", {
      headers: { cookie: cookie(), "accept-encoding": "br" },
    });
    expect(series.headers.get("content-type")).toBe("application/octet-stream");
    const bytes = Uint8Array.from(brotliDecompressSync(Buffer.from(await series.arrayBuffer())));
    expect(decodePacked(bytes.buffer).head).toEqual({ query: { metrics: "reward", points: "10" } });
    const csv = await ask("/ui/api/runs/a%22b/csv?metrics=a,b%252Cc", { headers: { cookie: cookie() } });
    expect(csv.headers.get("content-disposition")).toBe('attachment; filename="a_b.csv"');
    expect(await csv.text()).toBe("step,a,b,c\n");
  });

  it("of what happens come as it happens, from where the reader was", async () => {
    const { ask, cookie, happen, server } = opened();
    const response = await ask("/ui/api/live", { headers: { cookie: cookie() } });
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    const reader = response.body!.getReader();
    const next = async () => Buffer.from((await reader.read()).value ?? []).toString("utf8");
    expect(await next()).toMatch(/^id: [0-9a-f]{12}-0\nretry: 1000\n\n$/);
    happen({ kind: "steps", event: { run: "one", step: 3, cut: false } });
    const told = await next();
    expect(told).toMatch(/^event: steps\nid: [0-9a-f]{12}-1\ndata: .*"step":3/);
    const [, epoch] = /id: (.+)-1/.exec(told)!;
    for (const [query, headers, first] of [
      [`?after=${epoch}-0`, {}, "event: steps"],
      [`?after=${epoch}-1`, {}, `id: ${epoch}-1\nretry`],
      ["?after=0-0", {}, "event: reset"],
      [`?after=${epoch}-1`, { "last-event-id": `${epoch}-0` }, "event: steps"],
    ] as const) {
      const again = await ask(`/ui/api/live${query}`, { headers: { cookie: cookie(), ...headers } });
      const { value } = await again.body!.getReader().read();
      expect(Buffer.from(value!).toString("utf8").startsWith(first)).toBe(true);
    }
    // Nobody waits for those who only listen.
    await server.drain(60_000);
    expect(await next()).toBe("");
  });
});

describe("what changes something", () => {
  const change = { run: "one", tags: ["good"], note: "<b>" };

  it("is written by the page, and once however often it is sent", async () => {
    const { post, cookie, runs } = opened();
    const headers = { ...ours, cookie: cookie() };
    const first = await post("/ui/api/notes", { ...change, idempotencyKey: "k1" }, headers);
    expect([first.status, await first.json()]).toMatchObject([200, { ...change, archived: false }]);
    const again = await post("/ui/api/notes", { run: "one", note: "other", idempotencyKey: "k1" }, headers);
    expect(await again.json()).toMatchObject({ note: "<b>" });
    expect(JSON.parse(readFileSync(join(runs, "one", "notes.json"), "utf8"))).toMatchObject({ note: "<b>" });
    const later = await post("/ui/api/notes", { run: "one", archived: true }, headers);
    expect(await later.json()).toMatchObject({ ...change, archived: true });
  });

  it("is refused by the field that is wrong", async () => {
    const { post, cookie } = opened();
    const headers = { ...ours, cookie: cookie() };
    for (const [body, param] of [
      [{ run: "one", tags: ["a", ""] }, "tags.1"],
      [{ run: "one", tags: "a" }, "tags"],
      [{ run: "one", note: "x".repeat(10_001) }, "note"],
      [{ run: "one", nte: "x" }, "nte"],
      [{}, "run"],
    ] as const) {
      const response = await post("/ui/api/notes", body, headers);
      expect([response.status, (await errorOf(response)).param]).toEqual([422, param]);
    }
    expect((await post("/ui/api/notes", { run: "two" }, headers)).status).toBe(404);
    const stop = await post("/ui/api/runs/one/stop", {}, headers);
    expect([stop.status, await errorOf(stop)]).toMatchObject([409, { message: "It is not running." }]);
  });

  const writes = [
    ["/ui/api/notes", change],
    ["/ui/api/runs/one/stop", {}],
    ["/ui/api/runs/one/resume", {}],
  ] as const;

  it.each(writes)("at %s needs the page's header and origin", async (path, body) => {
    const { post, cookie } = opened();
    const own = { cookie: cookie() };
    const codes = await Promise.all(
      [
        { origin: ours.origin },
        { "x-stateset-ui": "1" },
        ...[
          "http://evil.example",
          "null",
          "http://127.0.0.1:6007",
          "http://127.0.0.1",
          `http://${host}.evil.example`,
        ].map((origin) => ({ ...ours, origin })),
      ].map(async (headers) => {
        const response = await post(path, body, { ...own, ...(headers as Record<string, string>) });
        return [response.status, (await errorOf(response)).code];
      }),
    );
    const foreign = [403, "invalid_origin"];
    expect(codes).toEqual([[403, "header_missing"], foreign, foreign, foreign, foreign, foreign, foreign]);
    expect((await post(path, body, ours)).status).toBe(401);
  });

  it.each(writes)("at %s is refused with --read-only, and by who may only read", async (path, body) => {
    const readOnly = opened({ readOnly: true });
    const refused = await readOnly.post(path, body, { ...ours, cookie: readOnly.cookie() });
    expect([refused.status, (await errorOf(refused)).code]).toEqual([403, "read_only"]);
    const keys = staticKeys(["sk-reader"], { scopes: ["read"] });
    const { post, ask } = opened({ access: "keys", keys });
    const authorization = "Bearer sk-reader";
    expect(await errorOf(await post(path, body, { ...ours, authorization }))).toMatchObject({
      code: "insufficient_scope",
    });
    const runs = await ask("/ui/api/runs", { headers: { authorization } });
    expect(await runs.json()).toMatchObject({ readOnly: true });
  });
});

describe("beside a server with keys", () => {
  it("a key becomes a cookie of its scopes", async () => {
    const keys = staticKeys(["sk-reader"], { scopes: ["read"] });
    const { ask, post } = opened({ access: "keys", keys });
    expect((await post("/ui/api/session", {}, { authorization: "Bearer wrong" })).status).toBe(401);
    const session = await post("/ui/api/session", {}, { authorization: "Bearer sk-reader" });
    expect([session.status, await session.json()]).toEqual([200, { scopes: ["read"] }]);
    const set = session.headers.get("set-cookie")!;
    expect(set).toContain("HttpOnly; SameSite=Strict");
    const cookie = set.split(";")[0]!;
    expect((await ask("/ui/api/runs", { headers: { cookie } })).status).toBe(200);
    expect((await post("/ui/api/notes", { run: "one" }, { ...ours, cookie })).status).toBe(403);
    expect((await ask("/ui/api/runs")).status).toBe(401);
  });

  it("without keys whoever reaches it may look, and the page may write", async () => {
    const { ask, post } = opened({ access: "keys" });
    expect((await ask("/ui/api/runs")).status).toBe(200);
    expect((await post("/ui/api/notes", { run: "one", note: "a" }, ours)).status).toBe(200);
    expect((await post("/ui/api/notes", { run: "one", note: "a" })).status).toBe(403);
    const session = await post("/ui/api/session", {}, { authorization: "Bearer x" });
    expect([session.status, session.headers.get("set-cookie")]).toEqual([200, null]);
  });
});

it("what a browser refuses for the page is noted, without what was in it", async () => {
  const { ask, notes } = opened();
  const report = (said: object) =>
    ask("/ui/api/csp-report", {
      method: "POST",
      headers: { "content-type": "application/csp-report" },
      body: JSON.stringify({ "csp-report": said }),
    });
  const said = { "document-uri": "http://x/", "effective-directive": "script-src-elem", "line-number": 3 };
  expect(await (await report({ ...said, "blocked-uri": "https://evil.example/?canary" })).json()).toEqual({
    reports: 1,
  });
  await report({ ...said, "blocked-uri": "inline" });
  await report({ "effective-directive": "<script>", "blocked-uri": "canary canary" });
  expect(notes).toMatchObject([
    { event: "csp-report", directive: "script-src-elem", blocked: "https://evil.example", line: 3 },
    { directive: "script-src-elem", blocked: "inline" },
    { directive: "unknown", blocked: "unknown" },
  ]);
  for (let i = 0; i < 200; i++) await report(said);
  expect(notes).toHaveLength(100);
});
