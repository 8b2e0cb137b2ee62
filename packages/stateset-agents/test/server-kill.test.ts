/** What clients see of a server that is killed, and what is left of it: three kills here, forty with `npm run soak`. */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { openPolicy } from "../src/policy/open-policy.ts";
import { createRandom } from "../src/random.ts";
import { createServer } from "../src/server/create-server.ts";
import { createKey, revokeKey } from "../src/server/key/key-file.ts";
import { openKeyStore } from "../src/server/key/key-store.ts";
import { chatModel } from "./cli.ts";
import { ask, type Client, type Seen } from "./serving/ask.ts";
import { Checker } from "./serving/check.ts";
import { type SpawnedServe, spawnServe } from "./serving/spawn-serve.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const kills = process.env.STATESET_SOAK ? 40 : 3;
const streams = 24;

let model: string;
let checker: Checker;
let server: SpawnedServe | undefined;
beforeAll(async () => {
  model = await chatModel(1, 256);
  checker = await Checker.open(model);
});
afterAll(() => checker.close());
afterEach(() => server?.child.kill("SIGKILL"));

const started = async (args: readonly string[] = [], env: Record<string, string> = {}) => {
  server = await spawnServe(["--model", `tiny=${model}`, "--threads", "1", ...args], temporaryFolder(), env);
  return server;
};

/** Asks on and on until the server is gone; everything that was seen of it. */
async function askUntilGone(url: string, token: string, round: number, began: () => void): Promise<Seen[]> {
  const seen: Seen[] = [];
  await Promise.all(
    Array.from({ length: streams }, async (_, i) => {
      for (let count = 0; ; count++) {
        const one = await ask({ url, token, model: "tiny" }, (round * streams + i) * 1000 + count);
        seen.push(one);
        began();
        if (one.status !== 200 || !one.whole) return;
      }
    }),
  );
  return seen;
}

it(
  `shows the whole of a reply or a broken one, never a wrong one, when it is killed; keys stay what they were`,
  async () => {
    const random = createRandom(7).next;
    const keys = join(temporaryFolder(), "keys.json");
    const first = await createKey(keys, { name: "first" });
    const revoked: string[] = [];
    const live = [first.token];
    let broken = 0;
    for (let kill = 0; kill < kills; kill++) {
      const { child, exit, url } = await started(["--keys", keys, "--log", "none"]);
      for (const token of live) expect(await statusOf(url, token)).toBe(200);
      for (const token of revoked) expect(await statusOf(url, token)).toBe(401);

      let asking: Promise<Seen[]> | undefined;
      await new Promise<void>((begun) => {
        asking = askUntilGone(url, first.token, kill, begun);
      });
      const [kept, gone] = await Promise.all(["kept", "gone"].map((name) => createKey(keys, { name })));
      await revokeKey(keys, gone!.key.id);
      await sleep(random() * 300);
      child.kill("SIGKILL");
      expect(await exit).toBeNull();
      live.push(kept!.token);
      revoked.push(gone!.token);

      const seen = await asking!;
      expect(await checker.wrong(seen)).toEqual([]);
      expect(seen.filter(({ whole, error }) => whole && error !== undefined)).toEqual([]);
      broken += seen.filter(({ status, whole }) => status === 200 && !whole).length;
    }
    // Some were in the middle of a reply, or nothing was shown of those.
    expect(broken).toBeGreaterThan(0);
  },
  kills * 60_000,
);

async function statusOf(url: string, token: string): Promise<number> {
  return (await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${token}` } })).status;
}

describe("trouble that it outlives", () => {
  it.runIf(process.platform === "linux")("a log that cannot be written: it serves on, and ends well", async () => {
    const { url, child, exit } = await started(["--log", "/dev/full", "--api-key", "sk-it"]);
    const client = { url, token: "sk-it", model: "tiny" };
    const seen = await Promise.all(Array.from({ length: 8 }, (_, seed) => ask(client, seed)));
    expect(seen.every(({ whole }) => whole)).toBe(true);
    expect(await checker.wrong(seen)).toEqual([]);
    child.kill("SIGTERM");
    expect(await exit).toBe(0);
  });

  it("a clock that is set back in the middle of replies: limits, keys and revocations go on", async () => {
    const keys = join(temporaryFolder(), "keys.json");
    const [limited, revoked] = await Promise.all([
      createKey(keys, {
        name: "limited",
        requestsPerMinute: 100,
        expiresAt: new Date(Date.now() + 60_000).toISOString(),
      }),
      createKey(keys, { name: "revoked" }),
    ]);
    const store = openKeyStore(keys);
    const here = await createServer({ models: { tiny: () => openPolicy({ model, threads: 1 }) }, keys: store });
    try {
      const { url } = await here.listen({ port: 0 });
      const client = { url, token: limited.token, model: "tiny" };
      const running = Array.from({ length: 8 }, (_, seed) => ask(client, seed));
      vi.useFakeTimers({ toFake: ["Date"], now: Date.now() - 3_600_000 });
      const seen = await Promise.all([...running, ...Array.from({ length: 8 }, (_, seed) => ask(client, 8 + seed))]);
      expect(seen.every(({ whole }) => whole)).toBe(true);
      expect(await checker.wrong(seen)).toEqual([]);
      expect(await statusOf(url, revoked.token)).toBe(200);
      await revokeKey(keys, revoked.key.id);
      await expect.poll(() => statusOf(url, revoked.token), { timeout: 20_000 }).toBe(401);
    } finally {
      vi.useRealTimers();
      await here.close();
      store.close();
    }
  });

  it("an engine that fails: those it answered are told, it is opened again once, and the rest is served right", async () => {
    const { url, metric, saw } = await started(["--api-key", "sk-it"], { STATESET_ENGINE_FAILS: "30" });
    const client = { url, token: "sk-it", model: "tiny" };
    expect(await checker.wrong(await askUntilFailed(client))).toEqual([]);
    await saw(/engine-reopening[\s\S]*engine-ready/);
    expect((await ready(url)).status).toBe(200);
    const after = await Promise.all(Array.from({ length: 6 }, (_, seed) => ask(client, seed)));
    expect(after.every(({ whole }) => whole)).toBe(true);
    expect(await checker.wrong(after)).toEqual([]);
    expect(await metric("stateset_running", "sk-it")).toBe(0);
  });

  it("an engine that fails again: it says so, is not ready, and answers no more", async () => {
    const { url, metric, saw } = await started(["--api-key", "sk-it"], { STATESET_ENGINE_FAILS: "30,30" });
    const client = { url, token: "sk-it", model: "tiny" };
    await askUntilFailed(client);
    await saw(/engine-ready/);
    await askUntilFailed(client);
    await saw(/engine-failed/);
    const { status, body } = await ready(url);
    expect(status).toBe(503);
    expect(body).toContain("engine of the model");
    const { status: refused, error } = await ask(client, 1);
    expect({ refused, error }).toEqual({ refused: 503, error: "engine_failed" });
    expect(await metric("stateset_model_info", "sk-it")).toBe(0);
  });
});

/** Several at a time, until the engine has failed; everything that was seen. */
async function askUntilFailed(client: Client): Promise<Seen[]> {
  const seen: Seen[] = [];
  for (let seed = 0; !seen.some(({ error }) => error !== undefined); seed += 4) {
    seen.push(...(await Promise.all([0, 1, 2, 3].map((i) => ask(client, seed + i)))));
  }
  const told = seen.flatMap(({ error }) => error ?? []);
  expect(new Set(told)).toEqual(new Set(["engine_failed"]));
  return seen;
}

async function ready(url: string): Promise<{ status: number; body: string }> {
  const response = await fetch(`${url}/readyz`, { headers: { authorization: "Bearer sk-it" } });
  return { status: response.status, body: await response.text() };
}
