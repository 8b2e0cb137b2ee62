/** A model hub on this machine, for tests of what is fetched from one. It has one model, shop/agent. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { onTestFinished, vi } from "vitest";
import { temporaryFolder } from "./temporary-folder.ts";

export const fakeCommit = "0123456789abcdef0123456789abcdef01234567";

export interface FakeFile {
  content: Buffer;
  lfs?: boolean;
}

/** One that has the files of a folder, is the hub of the test that is running, and ends with it. */
export async function hubOf(folder: string): Promise<FakeHub> {
  const hub = new FakeHub();
  await hub.start();
  onTestFinished(async () => {
    vi.unstubAllEnvs();
    await hub.stop();
  });
  for (const name of readdirSync(folder))
    hub.files.set(name, { content: readFileSync(join(folder, name)), lfs: name.endsWith(".safetensors") });
  const own = { HF_ENDPOINT: hub.url, HF_HUB_CACHE: temporaryFolder(), HF_TOKEN: undefined, HF_HUB_OFFLINE: undefined };
  for (const [name, value] of Object.entries(own)) vi.stubEnv(name, value);
  return hub;
}

/** Imitates the endpoints that are used: model info, tree listing, resolve with ranges and redirects. */
export class FakeHub {
  files = new Map<string, FakeFile>();
  requests: { method: string; url: string; authorization: string | undefined; range: string | undefined }[] = [];
  /** Answers before the imitation does; true when it did. */
  intercept: (request: IncomingMessage, response: ServerResponse) => boolean = () => false;
  requiredToken: string | undefined;
  commit = fakeCommit;
  #servers: Server[] = [];
  url = "";
  storageUrl = "";

  async start(): Promise<void> {
    this.url = await this.#listen((request, response) => this.#answer(request, response));
    // Large files live elsewhere, on another origin, which must never see the token.
    this.storageUrl = await this.#listen((request, response) => {
      const file = this.files.get(request.url!.slice(1));
      this.#record(request);
      if (this.intercept(request, response)) return;
      if (file) send(request, response, file.content);
      else response.writeHead(404).end();
    });
  }

  async stop(): Promise<void> {
    for (const server of this.#servers.splice(0)) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }

  #record({ method, url, headers }: IncomingMessage): void {
    this.requests.push({ method: method!, url: url!, authorization: headers.authorization, range: headers.range });
  }

  async #listen(handler: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
    const server = createServer(handler);
    this.#servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    this.#record(request);
    if (this.intercept(request, response)) return;
    const url = new URL(request.url!, this.url);
    const json = (status: number, body: unknown) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    if (this.requiredToken && request.headers.authorization !== `Bearer ${this.requiredToken}`) {
      json(401, { error: "Invalid username or password." });
    } else if (
      /^\/api\/models\/shop\/agent\/revision\/(main|v1|0123456789abcdef0123456789abcdef01234567)$/.test(url.pathname)
    ) {
      json(200, { _id: "1", id: "shop/agent", sha: this.commit, lastModified: "2026-01-01T00:00:00Z" });
    } else if (url.pathname === `/api/models/shop/agent/tree/${this.commit}`) {
      json(
        200,
        [...this.files].map(([path, file]) => entry(path, file)),
      );
    } else if (url.pathname.startsWith(`/shop/agent/resolve/${this.commit}/`)) {
      const path = url.pathname.split("/").slice(5).join("/");
      const file = this.files.get(path);
      if (!file) response.writeHead(404, { "X-Error-Code": "EntryNotFound" }).end();
      else if (file.lfs) response.writeHead(302, { location: `${this.storageUrl}/${path}` }).end();
      else send(request, response, file.content);
    } else json(404, { error: "Repository not found" });
  }
}

function entry(path: string, { content, lfs }: FakeFile): unknown {
  const git = createHash("sha1").update(`blob ${content.length}\0`).update(content).digest("hex");
  const oid = createHash("sha256").update(content).digest("hex");
  return {
    type: "file",
    path,
    size: content.length,
    oid: git,
    ...(lfs && { lfs: { oid, size: content.length, pointerSize: 130 } }),
  };
}

function send({ headers }: IncomingMessage, response: ServerResponse, content: Buffer): void {
  const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? "") ?? [];
  const common = { etag: '"x"', "content-type": "application/octet-stream" };
  if (from === undefined) {
    response.writeHead(200, { ...common, "content-length": content.length }).end(content);
    return;
  }
  const start = Number(from);
  const end = to ? Math.min(Number(to), content.length - 1) : content.length - 1;
  const range = { "content-range": `bytes ${start}-${end}/${content.length}`, "content-length": end - start + 1 };
  response.writeHead(206, { ...common, ...range }).end(content.subarray(start, end + 1));
}
