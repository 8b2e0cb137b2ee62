import { createHash } from "node:crypto";
import { mkdtemp, readdir, readFile, readlink, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { fakeCommit as commit, type FakeFile, FakeHub } from "../../../test/fake-hub.ts";
import { createProgressBar } from "./progress-bar.ts";
import { type DownloadProgress, resolveModel } from "./resolve-model.ts";

const weights = Buffer.from(Array.from({ length: 200_000 }, (_, i) => (i * 31) % 251));

let hub: FakeHub;
let cacheDir: string;
beforeEach(async () => {
  hub = new FakeHub();
  await hub.start();
  hub.files = new Map<string, FakeFile>([
    ["README.md", { content: Buffer.from("# Agent") }],
    ["config.json", { content: Buffer.from("{}") }],
    ["tokenizer.json", { content: Buffer.from("{}"), lfs: true }],
    ["model.safetensors", { content: weights, lfs: true }],
    ["pytorch_model.bin", { content: Buffer.from("unsafe"), lfs: true }],
    ["onnx/model.onnx", { content: Buffer.from("other"), lfs: true }],
  ]);
  cacheDir = await mkdtemp(join(tmpdir(), "hub-"));
  vi.stubEnv("HF_ENDPOINT", `${hub.url}/`);
  vi.stubEnv("HF_TOKEN", undefined);
  vi.stubEnv("HF_HUB_OFFLINE", undefined);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await hub.stop();
  await rm(cacheDir, { recursive: true, force: true });
});

const repo = () => join(cacheDir, "models--shop--agent");
const isData = ({ url }: { url: string }) => url === "/model.safetensors";

describe("resolveModel with a hub id", () => {
  it("downloads only what is needed, into the layout that Hugging Face's tools share", async () => {
    const seen: DownloadProgress[] = [];
    const { dir, name } = await resolveModel("shop/agent", { cacheDir, onProgress: (progress) => seen.push(progress) });
    expect(name).toBe("shop/agent");
    expect(dir).toBe(join(repo(), "snapshots", commit));
    expect((await readdir(dir)).sort()).toEqual(["config.json", "model.safetensors", "tokenizer.json"]);
    expect((await readFile(join(dir, "model.safetensors"))).equals(weights)).toBe(true);
    const blob = createHash("sha256").update(weights).digest("hex");
    expect(await readlink(join(dir, "model.safetensors"))).toBe(join("..", "..", "blobs", blob));
    expect(await readFile(join(repo(), "refs", "main"), "utf8")).toBe(commit);
    expect(seen.at(-1)).toMatchObject({
      file: "model.safetensors",
      bytes: weights.length + 4,
      total: weights.length + 4,
    });
    expect(seen.map(({ bytes }) => bytes)).toEqual(seen.map(({ bytes }) => bytes).sort((a, b) => a - b));
  });

  it("asks for nothing twice: a known commit needs no request at all", async () => {
    await resolveModel("shop/agent", { cacheDir });
    hub.requests = [];
    const seen: DownloadProgress[] = [];
    await resolveModel("shop/agent", { cacheDir, onProgress: (progress) => seen.push(progress) });
    expect(hub.requests.some(({ url }) => url.includes("/resolve/"))).toBe(false);
    expect(seen).toEqual([]);
    hub.requests = [];
    await resolveModel("shop/agent", { cacheDir, revision: commit });
    expect(hub.requests).toEqual([]);
  });

  it("works offline with what is there, and says so when it is not", async () => {
    await expect(resolveModel("shop/agent", { cacheDir, offline: true })).rejects.toMatchObject({
      code: "HUB_UNAVAILABLE",
      message: expect.stringContaining("offline mode is on"),
    });
    const online = await resolveModel("shop/agent", { cacheDir });
    hub.requests = [];
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    expect(await resolveModel("shop/agent", { cacheDir })).toEqual(online);
    expect(hub.requests).toEqual([]);
    // A snapshot that lost a file is not a model.
    await rm(join(online.dir, "model.safetensors"));
    await expect(resolveModel("shop/agent", { cacheDir })).rejects.toMatchObject({ code: "HUB_UNAVAILABLE" });
  });

  it("falls back to the cache with a warning when the hub is down", async () => {
    const online = await resolveModel("shop/agent", { cacheDir });
    await hub.stop();
    const warning = new Promise<Error>((resolve) => process.once("warning", resolve));
    expect(await resolveModel("shop/agent", { cacheDir })).toEqual(online);
    expect((await warning).message).toMatch(/could not be reached.*downloaded earlier/);
    await expect(resolveModel("shop/other", { cacheDir })).rejects.toMatchObject({ code: "HUB_UNAVAILABLE" });
  });

  it("sends the token to the hub alone, from option or environment, and never shows it", async () => {
    hub.requiredToken = "secret-token-1";
    const refused = await resolveModel("shop/agent", { cacheDir }).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: "HUB_UNAVAILABLE", hint: expect.stringContaining("HF_TOKEN") });
    const wrong = await resolveModel("shop/agent", { cacheDir, token: "secret-wrong" }).catch(
      (error: unknown) => error,
    );
    expect(wrong).toMatchObject({ code: "HUB_UNAVAILABLE", hint: expect.stringContaining("terms") });
    const { inspect } = await import("node:util");
    expect(inspect(wrong, { depth: 10 })).not.toContain("secret-wrong");
    vi.stubEnv("HF_TOKEN", "secret-token-1");
    await resolveModel("shop/agent", { cacheDir });
    expect(hub.requests.filter(isData).map(({ authorization }) => authorization)).not.toContain(
      "Bearer secret-token-1",
    );
    expect(hub.requests.filter(isData).length).toBeGreaterThan(0);
  });

  it("goes on where an interrupted download stopped", async () => {
    let cut = true;
    hub.intercept = ({ url, headers }, response) => {
      if (!cut || url !== "/model.safetensors" || headers.range === "bytes=0-0") return false;
      cut = false;
      response.writeHead(200, { etag: "x", "content-length": weights.length });
      response.write(weights.subarray(0, 120_000), () => setTimeout(() => response.destroy(), 20));
      return true;
    };
    const { dir } = await resolveModel("shop/agent", { cacheDir });
    expect((await readFile(join(dir, "model.safetensors"))).equals(weights)).toBe(true);
    const resumed = hub.requests.filter(isData).at(-1)!.range!;
    expect(resumed).toMatch(/^bytes=[1-9]\d*-199999$/);
  });

  it("starts afresh when what was kept does not fit, also from a server without ranges", async () => {
    const blob = join(repo(), "blobs", createHash("sha256").update(weights).digest("hex"));
    await resolveModel("shop/agent", { cacheDir });
    await rm(blob);
    await writeFile(`${blob}.incomplete`, Buffer.alloc(50_000, 7));
    hub.intercept = ({ url, headers }, response) => {
      if (url !== "/model.safetensors" || headers.range === "bytes=0-0") return false;
      response.writeHead(200, { etag: "x", "content-length": weights.length }).end(weights);
      return true;
    };
    const { dir } = await resolveModel("shop/agent", { cacheDir });
    expect((await readFile(join(dir, "model.safetensors"))).equals(weights)).toBe(true);
    expect((await readdir(join(repo(), "blobs"))).filter((name) => name.endsWith(".incomplete"))).toEqual([]);
  });

  it("gives up on a file that stays damaged, and leaves nothing that looks complete", async () => {
    hub.intercept = ({ url, headers }, response) => {
      if (url !== "/model.safetensors" || headers.range === "bytes=0-0") return false;
      response.writeHead(200, { etag: "x" }).end(Buffer.alloc(weights.length));
      return true;
    };
    await expect(resolveModel("shop/agent", { cacheDir })).rejects.toMatchObject({
      code: "HUB_UNAVAILABLE",
      message: expect.stringMatching(/model\.safetensors arrived damaged/),
    });
    await expect(resolveModel("shop/agent", { cacheDir, offline: true })).rejects.toMatchObject({
      code: "HUB_UNAVAILABLE",
    });
  });

  it("tries again after a server error, but not after a refusal", async () => {
    let failures = 2;
    hub.intercept = ({ url }, response) => {
      if (!url!.includes("/resolve/") || failures === 0) return false;
      failures--;
      response.writeHead(503).end();
      return true;
    };
    await resolveModel("shop/agent", { cacheDir });
    expect(failures).toBe(0);
    hub.commit = "f".repeat(40);
    hub.files.set("config.json", { content: Buffer.from('{"new":1}') });
    hub.requests = [];
    hub.intercept = ({ url }, response) => {
      if (!url!.includes("/resolve/")) return false;
      response.writeHead(403).end();
      return true;
    };
    await expect(resolveModel("shop/agent", { cacheDir })).rejects.toThrow(/refused access.*403/);
    expect(hub.requests.filter(({ url }) => url.includes("/resolve/"))).toHaveLength(1);
  });

  it("takes the shards of a large model, and adapters", async () => {
    hub.files.delete("model.safetensors");
    const index = { weight_map: { a: "model-00001-of-00002.safetensors", b: "model-00002-of-00002.safetensors" } };
    hub.files.set("model.safetensors.index.json", { content: Buffer.from(JSON.stringify(index)) });
    for (const shard of new Set(Object.values(index.weight_map))) {
      hub.files.set(shard, { content: Buffer.from(shard), lfs: true });
    }
    const { dir } = await resolveModel("shop/agent", { cacheDir });
    expect(await readdir(dir)).toContain("model-00002-of-00002.safetensors");
    expect(await resolveModel("shop/agent", { cacheDir, offline: true })).toMatchObject({ dir });
    hub.commit = "a".repeat(40);
    hub.files = new Map([
      ["adapter_config.json", { content: Buffer.from("{}") }],
      ["adapter_model.safetensors", { content: Buffer.from("x"), lfs: true }],
    ]);
    const adapter = await resolveModel("shop/agent", { cacheDir });
    expect((await readdir(adapter.dir)).sort()).toEqual(["adapter_config.json", "adapter_model.safetensors"]);
  });

  it("names the problem: no such model, no such revision, no safetensors, a hostile answer", async () => {
    await expect(resolveModel("shop/none", { cacheDir })).rejects.toMatchObject({ code: "MODEL_NOT_FOUND" });
    await expect(resolveModel("shop/agent", { cacheDir, revision: "v9" })).rejects.toThrow(
      /no model shop\/agent with revision v9/,
    );
    await expect(resolveModel("shop/agent", { cacheDir, revision: "../../x" })).rejects.toMatchObject({
      code: "INVALID_OPTION",
    });
    hub.files.delete("model.safetensors");
    await expect(resolveModel("shop/agent", { cacheDir })).rejects.toThrow(
      /no safetensors weights \(only \.bin, \.onnx\)/,
    );
    hub.commit = "../../../../tmp/evil";
    await expect(resolveModel("shop/agent", { cacheDir })).rejects.toThrow(/named no commit/);
  });

  it("says that it could not be saved when the cache is not writable", async () => {
    const file = join(cacheDir, "file");
    await writeFile(file, "");
    await expect(resolveModel("shop/agent", { cacheDir: file })).rejects.toMatchObject({ code: "WRITE_FAILED" });
  });
});

describe("resolveModel with a path", () => {
  it("takes a folder as it is and explains what is not one", async () => {
    expect(await resolveModel(cacheDir)).toEqual({ dir: cacheDir, name: cacheDir });
    const file = join(cacheDir, "model.safetensors");
    await writeFile(file, "");
    await expect(resolveModel(file)).rejects.toThrow(/is a file that does not end in \.gguf, and no model folder/);
    for (const path of ["./nowhere", "/nowhere/at/all", "a/b/c", "~/nowhere-at-all", "C:\\models\\x"]) {
      await expect(resolveModel(path)).rejects.toMatchObject({ code: "MODEL_NOT_FOUND" });
    }
    expect(hub.requests).toEqual([]);
  });
});

describe("the progress bar", () => {
  it("ends its line when all is there", () => {
    let drawn = "";
    const stream = { write: (text: string) => (drawn += text) } as unknown as NodeJS.WriteStream;
    const bar = createProgressBar(stream);
    const progress = { model: "shop/agent", file: "x", fileBytes: 0, fileTotal: 0, total: 2e6 };
    bar({ ...progress, bytes: 1e6 });
    bar({ ...progress, bytes: 2e6 });
    expect(drawn).toMatch(/\rshop\/agent █{12}░{12} 50% of 2\.0 MB\r.* 100% of 2\.0 MB\n$/);
  });
});
