import { afterAll, expect, it } from "vitest";
import type { Json } from "../../test/cli.ts";
import { gated } from "../../test/gated-policy.ts";
import { serve } from "../../test/serve.ts";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { StatesetError } from "../error.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import type { SpanAttributes } from "../tracer.ts";
import { createServer } from "./create-server.ts";
import { staticKeys } from "./key/key-store.ts";

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

it("says which port is taken", async () => {
  const first = await createServer({ models });
  const { port, url } = await first.listen({ port: 0 });
  expect(url).toBe(`http://127.0.0.1:${port}`);
  await expect(server.listen({ port })).rejects.toMatchObject({
    ...{ code: "INVALID_OPTION", message: expect.stringContaining(`Port ${port} of 127.0.0.1 is taken.`) },
  });
  await first.close();
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

it("says that there are no other weights where a model was not opened from any", async () => {
  const weights = () => {
    throw new StatesetError("CHECKPOINT_NOT_FOUND", "This model was not opened from /home/me/secret.");
  };
  const { ask } = await serve({ table: createTablePolicy({ seed: 1 }) }, { weights });
  const { status, json, headers } = await ask("/admin/models/table/reload", {});
  expect([status, json.error.code, headers.get("x-should-retry")]).toEqual([409, "checkpoint_not_found", "false"]);
  expect(json.error.message).not.toContain("secret");
});
