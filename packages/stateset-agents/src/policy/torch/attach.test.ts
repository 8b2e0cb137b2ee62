import { readFileSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { storiesDir, temporaryFolder } from "../../../test/tiny-model.ts";
import { StatesetError } from "../../error.ts";
import { packageVersion } from "../../package-version.ts";
import { startFakeWorker } from "../../test-support/fake-worker.ts";
import { addressOf, attachWorker } from "./attach.ts";
import { loadTorchPolicy } from "./load.ts";
import type { TorchOptions } from "./torch-options.ts";

const servers: Server[] = [];
afterEach(() => {
  vi.unstubAllEnvs();
  for (const server of servers.splice(0)) server.close();
});

/** Something that listens, and answers whoever comes with these bytes. */
async function listening(bytes: string): Promise<string> {
  const server = createServer((socket) => socket.on("error", () => {}).on("data", () => socket.end(bytes)));
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `torch://127.0.0.1:${(server.address() as { port: number }).port}`;
}

function attach(torch: TorchOptions, token = "a token of the tests") {
  vi.stubEnv("STATESET_WORKER_TOKEN", token);
  return loadTorchPolicy({ dir: storiesDir, torch });
}

const greeting = {
  ...{ protocol: 1, version: packageVersion(), world: 2, device: "cpu", gpus: [], pids: [1, 2], host: "elsewhere" },
  ...{ torch: "2.13", transformers: "5.22", peft: "0.21", bitsandbytes: false },
};

/** An address of the scripted worker at `path`. */
async function proxied(path: string): Promise<string> {
  const server = createServer((socket) => {
    const worker = connect(path).on("error", () => {});
    socket
      .on("error", () => {})
      .pipe(worker)
      .pipe(socket);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  vi.stubEnv("STATESET_WORKER_TOKEN", "a token of the tests");
  return `torch://127.0.0.1:${(server.address() as { port: number }).port}`;
}

describe("an address", () => {
  it("is a host and a port, and may be of this machine", () => {
    expect(addressOf("torch://localhost:7000")).toEqual({ host: "localhost", port: 7000, loopback: true });
    expect(addressOf("torch://[::1]:7000")).toEqual({ host: "::1", port: 7000, loopback: true });
    expect(addressOf("torch://here:80")).toMatchObject({ host: "here", port: 80 });
    expect(addressOf("torch://10.0.0.8:7000")).toEqual({ host: "10.0.0.8", port: 7000, loopback: false });
  });

  it.each([
    "http://here:1",
    "torch://here",
    "torch://:1",
    "torch://user:secret@here:1",
    "torch://us@er:sec/ret:secret@here:1",
    "torch://here:1/x",
    "torch://here:1?token=secret",
    "torch://here:1#secret",
  ])("is refused as %s, without a word of what may be secret", (url) => {
    const message = expect.not.stringContaining("secret");
    expect(() => addressOf(url)).toThrowError(expect.objectContaining({ code: "INVALID_OPTION", message }));
  });
});

describe("a worker that cannot be attached to", () => {
  it("wants a token", async () => {
    await expect(attach({ url: "torch://127.0.0.1:1" }, "")).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringContaining("STATESET_WORKER_TOKEN"),
    });
  });

  it("is not there", async () => {
    const url = await listening("");
    await new Promise((resolve) => servers.pop()!.close(resolve));
    await expect(attach({ url })).rejects.toMatchObject({
      code: "ENGINE_UNAVAILABLE",
      message: expect.stringMatching(/ECONNREFUSED.*--listen/),
    });
  });

  it("is something else", async () => {
    const url = await listening("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    await expect(attach({ url })).rejects.toMatchObject({
      code: "WORKER_LOST",
      message: expect.stringMatching(/broke the protocol/),
    });
  });

  it("says nothing at all", async () => {
    const server = createServer((socket) => void socket.on("error", () => {}).resume());
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    vi.stubEnv("STATESET_WORKER_TOKEN", "a token of the tests");
    const url = `torch://127.0.0.1:${(server.address() as { port: number }).port}`;
    await expect(attachWorker({ url, deadlineMs: 60_000, pingMs: 20 })).rejects.toMatchObject({
      code: "WORKER_LOST",
      message: expect.stringMatching(/3 heartbeats without an answer.*Is it a worker/),
    });
  });

  it("speaks no TLS where that is wanted, or cannot be asked to with certificates that are not there", async () => {
    const url = await listening("no TLS");
    await expect(attach({ url, tls: { ca: "/nowhere.pem" } })).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringContaining("/nowhere.pem"),
    });
  });
});

it("is asked again for a while where it may only not know yet that this client's network broke", async () => {
  let [asked, busyFor] = [0, 1];
  const worker = await startFakeWorker(temporaryFolder(), ({ answer }) => {
    const error = { code: "WORKER_REFUSED", message: "The worker is busy with another client.", busy: true };
    answer(++asked > busyFor ? { ok: true, ...greeting } : { ok: false, error });
  });
  const url = await proxied(worker.path);
  const { connection } = await attachWorker({ url, deadlineMs: 60_000, busyMs: 20_000 });
  connection.close(new StatesetError("POLICY_CLOSED", "The test is over."));
  expect(asked).toBe(2);
  busyFor = Number.POSITIVE_INFINITY;
  const refused = (message: RegExp) => ({ code: "WORKER_REFUSED", message: expect.stringMatching(message) });
  const briefly = attachWorker({ url, deadlineMs: 60_000, busyMs: 500 });
  await expect(briefly).rejects.toMatchObject(refused(/asked for 0\.5 s/));
  // Who comes for the first time is told at once.
  await expect(attachWorker({ url, deadlineMs: 60_000 })).rejects.toMatchObject(refused(/another client\.$/));
  expect(asked).toBe(4);
  await worker.close();
});

describe("a worker that stalls", () => {
  /** What a call gets whose worker answers all but that. */
  async function stalled(logDir: string | undefined): Promise<unknown> {
    const worker = await startFakeWorker(temporaryFolder(), ({ op, answer }) => {
      if (op === "hello") answer({ ok: true, ...greeting });
      if (op === "ping") answer({ ok: true, busy: null });
      if (op === "stacks") answer({ ok: true, text: "Rank 0:\nin forward, line 3\nRank 1:\n(no answer)", silent: [1] });
    });
    const url = await proxied(worker.path);
    const { connection } = await attachWorker({ url, deadlineMs: 100, pingMs: 20, logDir });
    const reason = await connection.call("forward").catch((error: unknown) => error);
    await worker.close();
    return reason;
  }

  const lost = (hint: RegExp) => ({
    code: "WORKER_LOST",
    message: expect.stringMatching(/got nowhere with forward .*, and rank 1 did not say where/),
    hint: expect.stringMatching(hint),
  });

  it("is told of with its stacks, also where there is no folder for them or that cannot be written", async () => {
    expect(await stalled(undefined)).toMatchObject(lost(/^It was doing this:\nRank 0:\nin forward, line 3/));
    expect(await stalled("/dev/null/logs")).toMatchObject(lost(/^It was doing this:\nRank 0:\nin forward, line 3/));
    const logDir = join(temporaryFolder(), "logs");
    expect(await stalled(logDir)).toMatchObject(lost(/^What it was doing is in .*worker-stacks\.txt\.$/));
    expect(readFileSync(join(logDir, "worker-stacks.txt"), "utf8")).toContain("in forward, line 3");
  });
});
