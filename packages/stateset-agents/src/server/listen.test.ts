/** Whom a server that listens answers, by the name it is asked under. */
import { request } from "node:http";
import { afterEach, expect, it } from "vitest";
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

it("does not listen beyond this machine without keys", async () => {
  server = await createServer({ models: { m: createStubPolicy() } });
  await expect(server.listen({ host: "0.0.0.0", port: 0 })).rejects.toThrow(/this machine alone, not on 0\.0\.0\.0/);
});
