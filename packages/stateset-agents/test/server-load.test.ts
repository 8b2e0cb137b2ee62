/** A server under more load than it can take: a few seconds here, 500 streams for ten minutes with `npm run soak`. */
import { spawn } from "node:child_process";
import { createReadStream } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { starterModelPath } from "@stateset-agents/starter-model";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createKey } from "../src/server/key/key-file.ts";
import { Checker } from "./serving/check.ts";
import type { CrowdLine, CrowdRequest } from "./serving/crowd.ts";
import { type SpawnedServe, spawnServe } from "./serving/spawn-serve.ts";
import { tsx } from "./spawn-cli.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const soak = process.env.STATESET_SOAK !== undefined;
const size = soak
  ? { streams: 500, aloneMs: 20_000, floodMs: 600_000, slots: 64, maxWaiting: 350 }
  : { streams: 60, aloneMs: 1000, floodMs: 5000, slots: 4, maxWaiting: 8 };
/** Replies drawn again in one go, and how many of the soak's tens of thousands are; of the short cut's all. */
const batch = 500;
const drawnAgain = soak ? 5000 : Number.POSITIVE_INFINITY;

const dir = temporaryFolder();
let server: SpawnedServe;
let checker: Checker;
const tokens: Record<"flooding" | "quiet" | "watch", string> = { flooding: "", quiet: "", watch: "" };
const lines: CrowdLine[] = [];
/** MiB, one a second. */
const memory: number[] = [];

beforeAll(async () => {
  // One that has something to do: a tiny one would be done before the queue is full.
  const model = starterModelPath;
  const keys = join(dir, "keys.json");
  for (const name of ["flooding", "quiet"] as const) {
    tokens[name] = (await createKey(keys, { name, project: name, scopes: ["infer"] })).token;
  }
  tokens.watch = (await createKey(keys, { name: "watch", scopes: ["read", "metrics"] })).token;
  const { slots, maxWaiting } = size;
  const limits = ["--slots", String(slots), "--max-waiting", String(maxWaiting), "--threads", "1"];
  server = await spawnServe(["--model", `starter=${model}`, "--keys", keys, "--log", join(dir, "log"), ...limits], dir);
  checker = await Checker.open(model);
  await crowd({
    ...{ url: server.url, model: "starter", flooding: tokens.flooding, quiet: tokens.quiet },
    ...{ streams: size.streams, aloneMs: size.aloneMs, floodMs: size.floodMs, file: join(dir, "seen.jsonl") },
  });
}, size.floodMs + 120_000);

afterAll(async () => {
  server?.child.kill("SIGKILL");
  await checker?.close();
});

async function crowd(request: CrowdRequest): Promise<void> {
  const program = fileURLToPath(new URL("./serving/crowd.ts", import.meta.url));
  const child = spawn(process.execPath, ["--import", tsx, program, JSON.stringify(request)], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  const ended = new Promise<number | null>((settle) => child.on("exit", settle));
  const watch = setInterval(() => {
    const now = server.memory();
    if (now !== undefined) memory.push(now);
  }, 1000);
  expect(await ended).toBe(0);
  clearInterval(watch);
  for await (const line of createInterface({ input: createReadStream(request.file) })) {
    lines.push(JSON.parse(line) as CrowdLine);
  }
}

it("gives every reply that policy.sample() gives for its seed, and of a reply that its client left the beginning", async () => {
  const wrong: string[] = [];
  const step = Math.max(1, Math.ceil(lines.length / drawnAgain));
  const drawn = lines.filter((_, i) => i % step === 0);
  for (let at = 0; at < drawn.length; at += batch) wrong.push(...(await checker.wrong(drawn.slice(at, at + batch))));
  expect(wrong).toEqual([]);
  expect(lines.some(({ whole }) => whole)).toBe(true);
  expect(lines.some(({ left }) => left)).toBe(true);
}, 600_000);

it("loses nothing: who stays gets the whole of it, or is told at once that the queue is full", () => {
  const lost = lines.filter(({ whole, left, status }) => !whole && !left && status !== 429);
  expect(lost).toEqual([]);
  expect(lines.filter(({ whole, error }) => whole && error !== undefined)).toEqual([]);
});

it("waits for nobody who does not read", () => {
  const late = lines.filter(({ sleeps }) => sleeps);
  expect(late.length).toBeGreaterThan(0);
  expect(late.filter(({ whole, status }) => !whole && status !== 429)).toEqual([]);
});

it("turns away whom the queue cannot take, of the key that floods alone", () => {
  const refused = lines.filter(({ status }) => status === 429);
  expect(refused.length).toBeGreaterThan(0);
  expect(new Set(refused.map(({ error }) => error))).toEqual(new Set(["queue_full"]));
  expect(refused.every(({ retryMs }) => retryMs! > 0)).toBe(true);
  expect(new Set(refused.map(({ who }) => who))).toEqual(new Set(["flooding"]));
});

it("lets the key that does not flood have its turn", () => {
  const first = (who: CrowdLine["who"]) =>
    median(lines.flatMap((line) => (line.who === who ? (line.firstMs ?? []) : [])));
  const [alone, quiet, flooding] = [first("alone"), first("quiet"), first("flooding")];
  const told = `${alone.toFixed(1)} ms alone, ${quiet.toFixed(1)} ms in the flood; of the key that floods ${flooding.toFixed(1)} ms`;
  console.log(`first token of the quiet key: ${told}`);
  // A timing, so that only the soak asks for it. Alone, a step of the engine decodes one reply; in the flood it decodes all slots, and
  // the quiet key's prompt waits for the one that runs: three times its own alone is less than such a step takes here.
  if (soak) expect(quiet).toBeLessThanOrEqual(flooding / 10);
  expect(lines.filter(({ who, whole }) => who === "quiet" && whole).length).toBeGreaterThan(0);
});

it("has nobody left when all have gone", async () => {
  const busy = async () =>
    (await server.metric("stateset_running", tokens.watch)) + (await server.metric("stateset_waiting", tokens.watch));
  for (let tries = 0; (await busy()) > 0; tries++) {
    expect(tries).toBeLessThan(100);
    await sleep(50);
  }
});

it.runIf(soak)("takes no more memory after the second minute", () => {
  const minute = (n: number) => Math.max(...memory.slice(60 * n, 60 * (n + 1)));
  const last = Math.max(...memory.slice(-120));
  console.log(
    `memory by the minute: ${Array.from({ length: Math.floor(memory.length / 60) }, (_, n) => minute(n).toFixed(0)).join(", ")} MiB`,
  );
  expect(last).toBeLessThanOrEqual(minute(2) * 1.1);
});

it("ends well", async () => {
  server.child.kill("SIGTERM");
  expect(await server.exit).toBe(0);
});

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}
