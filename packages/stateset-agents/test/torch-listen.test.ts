/** A real worker that listens with TLS and a token, and who comes to it. Needs STATESET_PYTHON, and openssl for a certificate. */
import { type ChildProcess, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { loadTorchPolicy } from "../src/policy/torch/load.ts";
import type { TorchOptions } from "../src/policy/torch/torch-options.ts";
import { storiesDir, temporaryFolder } from "./tiny-model.ts";
import { python, startWorker } from "./torch-workers.ts";

const token = "a-secret-that-nobody-may-see";
const openssl = spawnSync("openssl", ["version"]).status === 0;

/** Writes a key, and a certificate for this machine that it signed itself. */
function certify(file: string, key: string): void {
  const { status, stderr } = spawnSync("openssl", [
    ...["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", file],
    ...["-subj", "/CN=a worker", "-addext", "subjectAltName=IP:127.0.0.1"],
  ]);
  expect(status, String(stderr)).toBe(0);
}

describe.skipIf(!python || !openssl)("a worker that listens with a certificate of its own", () => {
  const folder = temporaryFolder();
  const [ca, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  let child: ChildProcess;
  let url: string;
  let said: () => string;

  beforeAll(async () => {
    certify(ca, key);
    vi.stubEnv("STATESET_WORKER_TOKEN", token);
    ({ child, url, said } = await startWorker(1, ["--tls-cert", ca, "--tls-key", key]));
    vi.unstubAllEnvs();
  });
  afterEach(() => vi.unstubAllEnvs());
  afterAll(() => void child?.kill("SIGKILL"));

  const attach = (torch: TorchOptions = { tls: { ca } }, known = token) => {
    vi.stubEnv("STATESET_WORKER_TOKEN", known);
    return loadTorchPolicy({ dir: storiesDir, torch: { url, device: "cpu", ...torch } });
  };

  it("computes for whoever trusts it and knows the token, one at a time", async () => {
    const policy = await attach();
    expect(policy.worker.pids).toEqual([child.pid]);
    await policy.zeroGradients();
    await expect(attach()).rejects.toMatchObject({
      code: "WORKER_REFUSED",
      message: expect.stringMatching(/busy with another client.*one at a time/),
    });
    await policy.close();
    await (await attach()).close();
  });

  it("takes a client back whose network broke, once it has given up the connection that was cut", async () => {
    const port = Number(url.split(":").at(-1));
    const cut: { here: Socket; there: Socket }[] = [];
    // A network in between, that can break on one side before the other knows.
    const network = createServer((here) => {
      const there = connect(port, "127.0.0.1").on("error", () => {});
      here.on("error", () => {}).on("data", (chunk) => there.write(chunk));
      there.on("data", (chunk) => here.write(chunk)).on("close", () => here.destroy());
      cut.push({ here, there });
    });
    await new Promise<void>((resolve) => network.listen(0, "127.0.0.1", resolve));
    const between = `torch://127.0.0.1:${(network.address() as AddressInfo).port}`;
    const policy = await attach({ url: between, tls: { ca } });
    cut[0]!.here.destroy();
    await expect(policy.zeroGradients()).rejects.toMatchObject({ code: "WORKER_LOST" });
    const before = said().length;
    const revived = policy.revive();
    await vi.waitFor(() => expect(said().slice(before)).toContain("busy with another client"), { timeout: 30_000 });
    cut[0]!.there.destroy();
    await revived;
    await policy.zeroGradients();
    await policy.close();
    for (const { there } of cut) there.destroy();
    network.close();
    await vi.waitFor(async () => (await attach()).close(), { timeout: 30_000 });
  });

  it("is not spoken to by whoever does not trust it, or speaks no TLS", async () => {
    const other = join(folder, "other.pem");
    certify(other, join(folder, "other-key.pem"));
    await expect(attach({ tls: { ca: other } })).rejects.toMatchObject({
      code: "ENGINE_UNAVAILABLE",
      message: expect.stringMatching(/self.signed certificate.*torch\.tls\.ca/s),
    });
    await expect(attach({})).rejects.toMatchObject({
      code: "WORKER_LOST",
      message: expect.stringMatching(/does it speak TLS\? torch\.tls\.ca/),
    });
    await (await attach()).close();
  });

  it("refuses a wrong token, and lives on", async () => {
    await expect(attach(undefined, "another")).rejects.toMatchObject({
      code: "WORKER_REFUSED",
      message: expect.stringMatching(/a token that is not this worker's.*STATESET_WORKER_TOKEN/),
    });
    await (await attach()).close();
  });

  it("leaves no port to a second one, which says so and ends", async () => {
    const address = url.slice("torch://".length);
    vi.stubEnv("STATESET_WORKER_TOKEN", token);
    await expect(startWorker(1, ["--listen", address])).rejects.toThrow(
      `ended with 2 before it was ready: stateset-agents-worker: ${address} is taken by another process.`,
    );
    await (await attach()).close();
  });

  it("shows its token nowhere: not in what it says and not among its arguments", () => {
    expect(said()).toContain("client refused");
    expect(said()).not.toContain(token);
    if (process.platform === "linux") {
      expect(readFileSync(`/proc/${child.pid}/cmdline`, "utf8")).not.toContain(token);
    }
  });
});
