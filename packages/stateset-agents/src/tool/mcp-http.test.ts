/** MCP over HTTP: against a server of the test's own that misbehaves, and against the reference server over both transports. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { caller } from "../test-support/tool-caller.ts";
import type { McpOptions } from "./mcp/options.ts";
import { type McpTools, mcpTools } from "./mcp.ts";

const opened: { close(): unknown }[] = [];
beforeEach(() => void vi.spyOn(process, "emitWarning").mockImplementation(() => {}));
afterEach(async () => {
  vi.restoreAllMocks();
  for (const one of opened.splice(0).reverse()) await one.close();
});

const names = ["echo", "stream", "error", "hang", "drop", "cut", "flood", "flood_stream", "html", "forget", "redirect"];
const token = "Bearer tok-very-secret";

interface Message {
  id?: number;
  method: string;
  params?: { name?: string; arguments?: { text?: string }; protocolVersion?: string; requestId?: number };
}

/** Speaks streamable HTTP by hand, and does what the name of the tool says. */
async function badServer() {
  const seen = { sessions: 0, ended: 0, cancelled: [] as unknown[], aborted: 0, calls: [] as string[] };
  const known = new Set<string>();
  const json = (response: ServerResponse, id: unknown, result: unknown, headers = {}) =>
    response
      .writeHead(200, { "content-type": "application/json", ...headers })
      .end(JSON.stringify({ jsonrpc: "2.0", id, result }));
  const said = (text: string) => ({ content: [{ type: "text", text }] });
  const tool = (request: IncomingMessage, response: ServerResponse, { id, params }: Message) => {
    const name = params!.name!;
    seen.calls.push(name);
    const events = () => response.writeHead(200, { "content-type": "text/event-stream" });
    const event = (result: unknown) => `event: message\ndata: ${JSON.stringify({ jsonrpc: "2.0", id, result })}\n\n`;
    if (name === "echo") json(response, id, said(params!.arguments!.text!));
    else if (name === "stream") events().end(`: a comment\n\n${event(said("streamed"))}`);
    else if (name === "error") response.writeHead(500).end(`no: ${request.headers.authorization} ${"x".repeat(9000)}`);
    else if (name === "hang") response.on("close", () => seen.aborted++);
    else if (name === "drop") request.socket.destroy();
    else if (name === "cut") {
      events().write(event(said("half")).slice(0, 40));
      setTimeout(() => request.socket.destroy(), 10);
    } else if (name === "flood") json(response, id, said("x".repeat(50_000_000)));
    else if (name === "flood_stream") events().end(event(said("x".repeat(50_000_000))));
    else if (name === "html") response.writeHead(200, { "content-type": "text/html" }).end("<h1>Hello</h1>");
    else if (name === "redirect") response.writeHead(307, { location: "http://localhost:1/" }).end();
    else if (name === "forget") {
      known.clear();
      json(response, id, said("forgotten"));
    }
  };
  const server = createServer(async (request, response) => {
    if (request.headers.authorization !== token) return response.writeHead(401).end("who are you?");
    const session = String(request.headers["mcp-session-id"] ?? "");
    if (request.method === "GET") return response.writeHead(405).end();
    if (request.method === "DELETE") {
      seen.ended++;
      return response.writeHead(200).end();
    }
    let body = "";
    for await (const chunk of request) body += chunk;
    const message = JSON.parse(body) as Message;
    const { id, method, params } = message;
    if (method === "initialize") {
      const own = `session-${++seen.sessions}`;
      known.add(own);
      const { protocolVersion } = params!;
      const result = { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "bad", version: "1" } };
      return json(response, id, result, { "mcp-session-id": own });
    }
    if (!known.has(session)) return response.writeHead(404).end("no such session");
    if (method === "tools/list")
      return json(response, id, { tools: names.map((name) => ({ name, inputSchema: { type: "object" } })) });
    if (method === "tools/call") return tool(request, response, message);
    if (method === "notifications/cancelled") seen.cancelled.push(params!.requestId);
    response.writeHead(202).end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  opened.push({
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp?key=query-secret`, seen, server };
}

async function open(url: string, options: McpOptions = {}): Promise<McpTools> {
  const server = await mcpTools({ url, headers: { Authorization: token } }, options);
  opened.push(server);
  return server;
}

describe("an MCP server over HTTP", () => {
  it.each<[string, string, string]>([
    ["error", "failed", "The tool failed: HTTP 500: no: Bearer [Authorization] xxx"],
    ["drop", "failed", "fetch failed"],
    ["cut", "failed", "the connection broke off before the answer"],
    ["flood", "too_large", "its answer has more than 10485760 bytes"],
    ["flood_stream", "too_large", "its answer has more than 10485760 bytes"],
    ["html", "failed", "Unexpected content type: text/html"],
    ["redirect", "failed", "redirect"],
  ])("costs one result where it answers with %s, and the next call is answered", async (name, failure, text) => {
    const { url, seen } = await badServer();
    const call = caller((await open(url)).tools);
    const outcome = await call(name);
    expect(outcome).toMatchObject({ failure, text: expect.stringContaining(text) });
    expect(outcome.text).not.toMatch(/very-secret|query-secret/);
    expect(outcome.text.length).toBeLessThan(700);
    expect(await call("stream")).toEqual({ text: "streamed" });
    expect(await call("echo", { text: "next" })).toEqual({ text: "next" });
    expect(seen).toMatchObject({ sessions: 1, calls: [name, "stream", "echo"] });
  });

  it("is told when a call takes too long, and its connection is let go", async () => {
    const { url, seen } = await badServer();
    const call = caller((await open(url, { timeoutMs: 200 })).tools);
    expect(await call("hang")).toMatchObject({ failure: "timeout" });
    await vi.waitFor(() => expect(seen).toMatchObject({ cancelled: [expect.any(Number)], aborted: 1 }));
  });

  it("that forgot the session is asked again in a new one, once", async () => {
    const { url, seen } = await badServer();
    const call = caller((await open(url)).tools);
    await call("forget");
    expect(await call("echo", { text: "again" })).toEqual({ text: "again" });
    expect(seen).toMatchObject({ sessions: 2, calls: ["forget", "echo"] });
  });

  it("that is gone fails each call until it is back", async () => {
    const { url, server } = await badServer();
    const call = caller((await open(url)).tools);
    const { port } = server.address() as AddressInfo;
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    expect(await call("echo", { text: "a" })).toMatchObject({
      failure: "failed",
      text: expect.stringContaining("fetch failed"),
    });
    await once(server.listen(port, "127.0.0.1"), "listening");
    expect(await call("echo", { text: "b" })).toEqual({ text: "b" });
  });

  it("is told of the end of the session", async () => {
    const { url, seen } = await badServer();
    await (await open(url)).close();
    expect(seen.ended).toBe(1);
  });

  it("that refuses is a named error without the secrets", async () => {
    const { url } = await badServer();
    const error = await mcpTools({ url, headers: { "X-Key": "wrong-very-secret" } }).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: "MCP_FAILED", message: expect.stringContaining("HTTP 401: who are you?") });
    expect((error as Error).message).toMatch(/server "http:\/\/127\.0\.0\.1:\d+\/mcp" could not be reached/);
    expect(`${(error as Error).stack}`).not.toMatch(/very-secret|query-secret/);
  });
});

describe("the reference server", () => {
  const everything = createRequire(import.meta.url).resolve("@modelcontextprotocol/server-everything/dist/index.js");

  async function check({ tools, leftOut }: McpTools) {
    const call = caller(tools);
    expect(await call("echo", { message: "hi" })).toEqual({ text: "Echo: hi" });
    expect(await call("get-sum", { a: 1, b: 2 })).toEqual({ text: "The sum of 1 and 2 is 3." });
    expect(await call("get-sum", { a: "x" })).toMatchObject({ failure: "invalid_arguments" });
    const weather = await call("get-structured-content", { location: "Chicago" });
    expect(JSON.parse(weather.text)).toMatchObject({ conditions: expect.any(String), humidity: expect.any(Number) });
    expect((await call("get-tiny-image")).text).toMatch(/\n\[image, image\/png, 4033 bytes\]\n/);
    expect((await call("get-resource-links", { count: 1 })).text).toMatch(/\[link to demo:\/\/resource\/\S+: .+\]/);
    const resource = await call("get-resource-reference", { resourceType: "Text", resourceId: 1 });
    expect(resource.text).toMatch(/\[resource demo:\/\/resource\/dynamic\/text\/1, text\/plain\]\nResource 1/);
    const blob = await call("get-resource-reference", { resourceType: "Blob", resourceId: 1 });
    expect(blob.text).toMatch(/\[resource demo:\/\/resource\/dynamic\/blob\/1, .*\d+ bytes\]/);
    const slow = tools.map((one) => ({ ...one, timeoutMs: 100 }));
    expect(await caller(slow)("trigger-long-running-operation", { duration: 5, steps: 5 })).toMatchObject({
      failure: "timeout",
    });
    expect(leftOut).toEqual([{ name: "simulate-research-query", problem: expect.stringContaining("task") }]);
  }

  it("gives its tools over standard input and output", async () => {
    const server = await mcpTools({ command: process.execPath, args: [everything] });
    opened.push(server);
    await check(server);
  });

  it("gives its tools over streamable HTTP", async () => {
    const probe = createServer().listen(0);
    await once(probe, "listening");
    const { port } = probe.address() as AddressInfo;
    await new Promise((resolve) => probe.close(resolve));
    await started([everything, "streamableHttp"], { PORT: String(port) });
    const server = await mcpTools({ url: `http://localhost:${port}/mcp` });
    opened.push(server);
    await check(server);
  });
});

/** A program that runs until the test is over; gives what it says first. */
async function started(args: readonly string[], env: Record<string, string> = {}): Promise<string> {
  const child = spawn(process.execPath, args, {
    env: { ...process.env, ...env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  opened.push({
    close: () => {
      child.kill("SIGKILL");
      return once(child, "exit");
    },
  });
  const [said] = await once(child.stderr, "data");
  return String(said).trim();
}

describe("a server that speaks the revision of 2026 alone", () => {
  const script = fileURLToPath(new URL("../test-support/modern-mcp-server.mjs", import.meta.url));

  it("gives its tools over standard input and output, and says when there are more", async () => {
    const onChange = vi.fn();
    const server = await mcpTools({ command: process.execPath, args: [script] }, { onChange });
    opened.push(server);
    expect(await caller(server.tools)("echo", { text: "hi" })).toEqual({ text: "hi" });
    await caller(server.tools)("grow");
    await vi.waitFor(() => expect(onChange).toHaveBeenCalledWith({ added: ["late"], removed: [] }));
    expect(await caller(server.tools)("late")).toEqual({ text: "here now" });
  });

  it("gives its tools over HTTP", async () => {
    const port = await started([script, "http"]);
    const server = await mcpTools({ url: `http://127.0.0.1:${port}/mcp` });
    opened.push(server);
    expect(await caller(server.tools)("echo", { text: "hi" })).toEqual({ text: "hi" });
  });
});
