import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import type { Json } from "../../test/cli.ts";
import { gated } from "../../test/gated-policy.ts";
import { serve, waitingIn } from "../../test/serve.ts";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { StatesetError } from "../error.ts";
import type { Policy } from "../policy/policy.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import type { SpanAttributes } from "../tracer.ts";
import { createServer } from "./create-server.ts";
import { HttpError } from "./http-error.ts";
import { staticKeys } from "./key/key-store.ts";
import type { ServerRoute } from "./route.ts";

const models = { table: createTablePolicy() };
const server = await createServer({ models });
afterAll(() => server.close());

it("names options that it does not know, and models that it cannot call so", async () => {
  await expect(createServer({ models, maxWating: 3 } as never)).rejects.toMatchObject({
    ...{ code: "INVALID_OPTION", message: expect.stringContaining("maxWating") },
    hint: expect.stringContaining("maxWaiting"),
  });
  await expect(createServer({ models: {} })).rejects.toMatchObject({ code: "INVALID_OPTION" });
  await expect(createServer({ models: { "a b": models.table } })).rejects.toMatchObject({ code: "INVALID_OPTION" });
});

it("takes routes of other parts of the library, and none that does not say who may ask", async () => {
  const answer = () => ({ told: true });
  const route = { method: "GET", path: "/more", scope: "read", maxBytes: 0, limited: true, summary: "More.", answer };
  const more = await createServer({ models, keys: staticKeys(["sk-test"]), routes: [route as ServerRoute] });
  const asked = (headers = {}) => more.fetch(new Request("http://localhost/more", { headers }));
  expect((await asked()).status).toBe(401);
  expect(await (await asked({ authorization: "Bearer sk-test" })).json()).toEqual({ told: true });
  await more.close();
  for (const wrong of [
    { method: "GET", path: "/more" },
    { ...route, scope: "everybody" },
    { ...route, answer: 1 },
  ]) {
    await expect(createServer({ models, routes: [wrong as ServerRoute] })).rejects.toMatchObject({
      ...{ code: "INVALID_OPTION", message: expect.stringContaining("GET /more does not say its scope and limits") },
    });
  }
});

it("listens to others than this machine only with keys", async () => {
  await expect(server.listen({ host: "0.0.0.0", port: 0 })).rejects.toMatchObject({
    ...{ code: "INVALID_OPTION", message: expect.stringContaining("0.0.0.0") },
  });
  const keys = staticKeys(["sk-test-0123456789"]);
  const guarded = await createServer({ models, keys });
  const { port } = await guarded.listen({ host: "0.0.0.0", port: 0 });
  const asked = (headers = {}) => fetch(`http://127.0.0.1:${port}/v1/models`, { headers });
  expect((await asked()).status).toBe(401);
  expect((await asked({ authorization: "Bearer sk-test-0123456789" })).status).toBe(200);
  await guarded.close();

  const named = await createServer({ models, keys, hosts: ["api.example"] });
  const other = await named.listen({ host: "0.0.0.0", port: 0 });
  expect((await fetch(`http://127.0.0.1:${other.port}/healthz`)).status).toBe(403);
  await named.close();
});

it("answers probes while its keys cannot be read", async () => {
  const find = () => {
    throw new HttpError(503, "Keys cannot be checked at the moment.");
  };
  const { fetch } = await serve(models, { keys: { find, close() {} } });
  const asked = (path: string) => fetch(path, undefined, { headers: { authorization: "Bearer k" } });
  expect((await asked("/v1/models")).status).toBe(503);
  for (const path of ["/healthz", "/readyz"]) expect((await asked(path)).status).toBe(200);
});

it("says which port is taken", async () => {
  const first = await createServer({ models });
  const { port, url } = await first.listen({ port: 0 });
  expect(url).toBe(`http://127.0.0.1:${port}`);
  await expect(server.listen({ port })).rejects.toMatchObject({
    ...{ code: "INVALID_OPTION", message: expect.stringContaining(`Port ${port} of 127.0.0.1 is taken.`) },
  });
  await first.close();
});

it("listens once, and says so where it is asked to again", async () => {
  const one = await createServer({ models });
  const both = await Promise.allSettled([one.listen({ port: 0 }), one.listen({ port: 0 })]);
  expect(both.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
  const { url } = (both[0] as PromiseFulfilledResult<{ url: string }>).value;
  await expect(one.listen({ port: 0 })).rejects.toMatchObject({
    ...{ code: "INVALID_OPTION", message: expect.stringContaining(url), hint: expect.stringContaining("createServer") },
  });
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  await one.close();
  await expect(fetch(`${url}/healthz`)).rejects.toThrow();
});

it("may listen elsewhere where a port was taken", async () => {
  const one = await createServer({ models });
  const other = await createServer({ models });
  const { port } = await one.listen({ port: 0 });
  await expect(other.listen({ port })).rejects.toThrow("is taken");
  expect((await other.listen({ port: 0 })).port).not.toBe(port);
  await Promise.all([one.close(), other.close()]);
});

it("closes the models it had opened when one cannot be opened", async () => {
  const opened = createTablePolicy();
  const failing = { one: async () => opened, two: () => Promise.reject(new Error("no such model")) };
  await expect(createServer({ models: failing })).rejects.toThrow("no such model");
  await expect(opened.embed!([Int32Array.of(7)])).rejects.toMatchObject({ code: "POLICY_CLOSED" });
});

it("describes every route, with what it takes and gives", async () => {
  const { ask } = await serve(models, { weights: () => "" });
  const { json } = await ask("/openapi.json");
  const operations = Object.entries(json.paths as Json).flatMap(([path, methods]) =>
    Object.entries(methods as Json).map(([method, one]) => ({ name: `${method} ${path}`, ...one })),
  );
  expect(operations.length).toBeGreaterThan(10);
  for (const { name, requestBody, responses } of operations) {
    if (/^post/.test(name)) expect(requestBody, name).toBeDefined();
    // Numbers for Prometheus are no JSON, and the document does not describe itself.
    if (!/metrics|openapi/.test(name)) expect(responses[200].content, name).toBeDefined();
  }
  // What is taken and has no effect is there, or clients that are made of it could not send it.
  const { properties, additionalProperties } = json.components.schemas.post_v1_chat_completions_body;
  expect([Object.keys(properties as object), additionalProperties]).toEqual([expect.arrayContaining(["user"]), false]);
});

it("keeps greedy and seeded replies for the same key where it is told to", async () => {
  const policy = createTablePolicy();
  const { ask } = await serve({ table: policy }, { responseCache: { entries: 4, bytes: 100_000 } });
  const body = { model: "table", messages: [{ role: "user", content: "order" }], max_tokens: 3 };
  const seeded = { ...body, seed: 1 };
  const first = await ask("/v1/chat/completions", seeded);
  const again = await ask("/v1/chat/completions", seeded);
  expect([first, again].map(({ headers }) => headers.get("x-stateset-cached"))).toEqual([null, "1"]);
  expect(again.json).toEqual(first.json);
  expect(policy.calls.sample).toBe(1);
  await ask("/v1/chat/completions", body);
  await ask("/v1/chat/completions", body);
  expect(policy.calls.sample).toBe(3);
});

it("keeps no reply of other weights than those it was asked of", async () => {
  const [first, second] = [1, 2].map((seed) => createTablePolicy({ seed, spread: 3 }));
  const folders = [temporaryFolder(), temporaryFolder()] as const;
  await first!.save(folders[0]);
  await second!.save(folders[1]);
  const slow = gated(first!);
  const { ask, server } = await serve({ table: slow.policy }, { responseCache: { entries: 4, bytes: 100_000 } });
  const body = { model: "table", messages: [{ role: "user", content: "order" }], max_tokens: 8, seed: 1 };
  const asked = ask("/v1/chat/completions", body);
  await expect.poll(() => slow.asked).toBe(1);
  const version = await server.load("table", folders[1]);
  slow.open();
  expect((await asked).json.system_fingerprint).toBe(version);
  await server.load("table", folders[0]);
  expect((await ask("/v1/chat/completions", body)).json.system_fingerprint).not.toBe(version);
});

it("names in a stream the weights that sampled it, not those it was asked of", async () => {
  const [first, second] = [1, 2].map((seed) => createTablePolicy({ seed, spread: 3 }));
  const folder = temporaryFolder();
  await second!.save(folder);
  const slow = gated(first!);
  const client = await serve({ table: slow.policy });
  const { ask, stream, server } = client;
  const body = { model: "table", max_tokens: 2, min_tokens: 2, seed: 1 };
  const asked = { ...body, messages: [{ role: "user", content: "order" }] };
  const held = [1, 2].map(() => ask("/v1/completions", { ...body, prompt: "order" }));
  await expect.poll(() => slow.asked).toBe(2);
  const before = first!.version;
  const waiting = [
    stream("/v1/chat/completions", { ...asked, stream_options: { include_usage: true } }),
    stream("/v1/completions", { ...body, prompt: "order", stream_options: { include_usage: true } }),
  ];
  await expect.poll(() => waitingIn(client, "table")).toBe(2);
  const version = await server.load("table", folder);
  expect(version).not.toBe(before);
  slow.open();
  for (const one of held) expect((await one).json.system_fingerprint).toBe(version);
  for (const one of waiting) {
    const { events } = await one;
    expect(events.length).toBeGreaterThan(2);
    expect(new Set(events.map(({ system_fingerprint }) => system_fingerprint))).toEqual(new Set([version]));
  }
});

it("names at a stream's end the weights that came while it was handed over", async () => {
  const [first, second] = [1, 2].map((seed) => createTablePolicy({ seed, spread: 3 }));
  const folder = temporaryFolder();
  await second!.save(folder);
  const slow = gated(first!);
  const before = first!.version;
  const { stream, server } = await serve({ table: slow.policy });
  const body = { model: "table", max_tokens: 2, min_tokens: 2, seed: 1 };
  const told = [
    stream("/v1/chat/completions", { ...body, messages: [{ role: "user", content: "order" }] }),
    stream("/v1/completions", { ...body, prompt: "order" }),
  ];
  await expect.poll(() => slow.asked).toBe(2);
  const version = await server.load("table", folder);
  slow.open();
  for (const one of told) {
    const { events } = await one;
    expect([events[0], events.at(-1)].map((event) => event!.system_fingerprint)).toEqual([before, version]);
  }
});

it("traces a request, and says why each of its replies ended", async () => {
  const attributes: SpanAttributes = {};
  const span = {
    addEvent() {},
    setStatus() {},
    end() {},
    setAttributes: (more: SpanAttributes) => Object.assign(attributes, more),
  };
  const { ask } = await serve(models, { trace: { tracer: { startSpan: () => span } } });
  await ask("/v1/completions", { model: "table", prompt: "order", max_tokens: 1, min_tokens: 1, n: 2 });
  expect(attributes).toMatchObject({
    ...{ "gen_ai.response.finish_reasons": ["length", "length"], "gen_ai.usage.output_tokens": 2 },
  });
});

it("says of a stream that failed what its client saw: 200, and the code of the error", async () => {
  const table = createTablePolicy();
  const sample: Policy["sample"] = async (_, { onToken } = {}) => {
    onToken?.({ request: 0, token: table.idOf("order"), logprob: -1, text: "order" });
    throw new StatesetError("ENGINE_FAILED", "It failed.");
  };
  const file = join(temporaryFolder(), "log");
  const attributes: SpanAttributes = {};
  const ended: unknown[] = [];
  const span = {
    addEvent() {},
    setStatus: ({ code }: { code: number }) => void ended.push(code),
    end() {},
    setAttributes: (more: SpanAttributes) => Object.assign(attributes, more),
  };
  const { stream, fetch, server } = await serve(
    { table: Object.assign(Object.create(table) as Policy, { sample }) },
    { log: { destination: { file } }, trace: { tracer: { startSpan: () => span } } },
  );
  const { status, events } = await stream("/v1/completions", { model: "table", prompt: "order", max_tokens: 2 });
  expect([status, events.at(-1)!.error.code]).toEqual([200, "engine_failed"]);
  expect(attributes).toMatchObject({ "http.response.status_code": 200, "error.type": "engine_failed" });
  expect(ended).toEqual([2]);
  expect(await (await fetch("/metrics")).text()).toContain(
    'stateset_requests_total{route="POST /v1/completions",status="200",model="table",code="engine_failed"} 1',
  );
  await server.close();
  const lines = readFileSync(file, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Json);
  expect(lines.find(({ route }) => route === "POST /v1/completions")).toMatchObject({
    ...{ level: "error", status: 200, streamed: true, failed: true, errorCode: "engine_failed" },
  });
});

it("takes other weights while it serves, and says their version", async () => {
  const policy = createTablePolicy({ seed: 1 });
  const other = createTablePolicy({ seed: 2 });
  const folder = temporaryFolder();
  await other.save(folder);
  const { server, ask } = await serve({ table: policy }, { weights: () => folder });
  const before = server.models()[0]!.version;
  const { json } = await ask("/admin/models/table/reload", {});
  expect(json).toEqual({ model: "table", version: policy.version });
  expect(json.version).not.toBe(before);
  expect(await server.load("table", folder)).toBe(json.version);
  expect((await ask("/v1/models")).json.data[0].version).toBe(json.version);
});

it("takes other weights for models whose names have slashes, in whatever way they are written", async () => {
  const folder = temporaryFolder();
  await createTablePolicy({ seed: 2 }).save(folder);
  const asked: string[] = [];
  const weights = (model: string) => {
    asked.push(model);
    return folder;
  };
  const { ask } = await serve({ "team/small": createTablePolicy(), "a/reload": createTablePolicy() }, { weights });
  for (const name of ["team/small", "team%2Fsmall", "a/reload", "a%2freload"]) {
    const { status, json } = await ask(`/admin/models/${name}/reload`, {});
    expect([status, json.model]).toEqual([200, decodeURIComponent(name)]);
  }
  expect(asked).toEqual(["team/small", "team/small", "a/reload", "a/reload"]);
  expect((await ask("/admin/models/team/none/reload", {})).json.error.code).toBe("model_not_found");
  expect((await ask("/admin/models/team/small", {})).json.error.code).toBe("unknown_route");
});

it("says that there are no other weights where a model was not opened from any", async () => {
  const weights = () => {
    throw new StatesetError("CHECKPOINT_NOT_FOUND", "This model was not opened from /home/me/secret.");
  };
  const { ask } = await serve({ table: createTablePolicy({ seed: 1 }) }, { weights });
  const { status, json, headers } = await ask("/admin/models/table/reload", {});
  expect([status, json.error.code, headers.get("x-should-retry")]).toEqual([409, "checkpoint_not_found", "false"]);
  expect(json.error.message).not.toContain("secret");
});
