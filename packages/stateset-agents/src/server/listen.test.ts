/** Whom a server that listens answers, by the name it is asked under. */
import { type IncomingMessage, request } from "node:http";
import { afterEach, expect, it } from "vitest";
import { gated } from "../../test/gated-policy.ts";
import { createStubPolicy } from "../policy/stub/stub-policy.ts";
import { type AgentServer, createServer } from "./create-server.ts";
import { staticKeys } from "./key/key-store.ts";

let server: AgentServer | undefined;
afterEach(() => server?.close());

async function statusOf(listens: string, asked: string, hosts?: string[]): Promise<number | undefined> {
  server = await createServer({ models: { m: createStubPolicy() }, keys: staticKeys(["k"]), hosts });
  const { port } = await server.listen({ host: listens, port: 0 });
  const headers = { host: asked, authorization: "Bearer k" };
  return new Promise((settle, reject) => {
    const asking = request({ host: "127.0.0.1", port, path: "/v1/models", headers }, (answer) => {
      answer.resume();
      settle(answer.statusCode);
    });
    asking.on("error", reject).end();
  });
}

it.each([
  ["127.0.0.1", "localhost", undefined, 200],
  ["127.0.0.1", "ai.example.com", undefined, 403],
  ["127.0.0.1", "ai.example.com", ["ai.example.com"], 200],
  ["0.0.0.0", "ai.example.com", undefined, 200],
  ["0.0.0.0", "ai.example.com", ["ai.example.com"], 200],
  ["0.0.0.0", "other.example.com", ["ai.example.com"], 403],
])("listening on %s, asked as %s, with names %j: %i", async (listens, asked, hosts, status) => {
  expect(await statusOf(listens, asked, hosts)).toBe(status);
});

it.each(["localhost:99999", "me@localhost", "local host"])("answers as always where the Host is %j", async (asked) => {
  server = await createServer({ models: { m: createStubPolicy() } });
  const { port } = await server.listen({ port: 0 });
  const answer = await new Promise<IncomingMessage>((settle, reject) => {
    request({ host: "127.0.0.1", port, path: "/healthz", headers: { host: asked } }, settle)
      .on("error", reject)
      .end();
  });
  let body = "";
  for await (const part of answer) body += part;
  expect([answer.statusCode, JSON.parse(body).error.code]).toEqual([400, "invalid_host"]);
  expect(answer.headers).toMatchObject({ "x-request-id": expect.any(String), "x-content-type-options": "nosniff" });
});

it("does not listen beyond this machine without keys", async () => {
  server = await createServer({ models: { m: createStubPolicy() } });
  await expect(server.listen({ host: "0.0.0.0", port: 0 })).rejects.toThrow(/this machine alone, not on 0\.0\.0\.0/);
});

it("tells who comes while it ends that it is not ready, and closes the port when it is done", async () => {
  const slow = gated(createStubPolicy());
  server = await createServer({ models: { m: slow.policy } });
  const { url } = await server.listen({ port: 0 });
  const body = JSON.stringify({ model: "m-stub", messages: [{ role: "user", content: "Hello" }] });
  const asked = { method: "POST", headers: { "content-type": "application/json" }, body };
  const running = fetch(`${url}/v1/chat/completions`, asked);
  await expect.poll(() => slow.asked).toBe(1);
  const drained = server.drain(60_000);
  expect((await fetch(`${url}/readyz`)).status).toBe(503);
  expect((await fetch(`${url}/v1/chat/completions`, asked)).status).toBe(503);
  slow.open();
  expect((await running).status).toBe(200);
  await drained;
  await expect(fetch(`${url}/readyz`)).rejects.toThrow();
});
