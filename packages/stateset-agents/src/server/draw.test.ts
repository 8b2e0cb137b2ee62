/** Requests that wait, that are late, whose clients leave, and a server that ends. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chatModel, type Json } from "../../test/cli.ts";
import { gated } from "../../test/gated-policy.ts";
import { serve } from "../../test/serve.ts";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { openPolicy } from "../policy/open-policy.ts";
import type { Policy } from "../policy/policy.ts";
import { eventsOf } from "../test-support/read-events.ts";

let policy: Policy;
beforeAll(async () => {
  policy = await openPolicy({ model: await chatModel(1, 100_000), threads: 1 });
});
afterAll(() => policy.close());

const path = "/v1/chat/completions";
const messages = [{ role: "user", content: "Hello" }];
const brief = { model: "tiny", messages, max_tokens: 2 };
/** Longer than any test waits. */
const endless = { model: "tiny", messages, max_tokens: 90_000, min_tokens: 90_000 };

describe("a deadline", () => {
  it("that passes while sampling ends the reply, in a stream with an event", async () => {
    const { ask, stream } = await serve({ tiny: policy });
    const late = { ...endless, deadline: 1000 };
    const { status, headers, json } = await ask(path, late);
    expect([status, headers.get("x-should-retry")]).toEqual([408, "false"]);
    expect(json.error).toMatchObject({ code: "deadline_exceeded", type: "timeout_error" });
    const { events, done } = await stream(path, late);
    expect(events.at(-1)).toMatchObject({ error: { code: "deadline_exceeded" } });
    expect([events.length > 2, done]).toEqual([true, false]);
    expect(policy.stats()).toMatchObject({ running: 0 });
  });

  it("that passes while waiting is told so, and never reaches the engine; the server's own counts where none is named", async () => {
    const slow = gated(policy);
    const { ask } = await serve({ tiny: slow.policy }, { deadlineMs: 50 });
    const held = [ask(path, { ...brief, deadline: 60_000 }), ask(path, { ...brief, deadline: 60_000 })];
    await expect.poll(() => slow.asked).toBe(2);
    for (const over of [{ deadline: 20 }, {}]) {
      const { status, headers, json } = await ask(path, { ...brief, ...over });
      expect([status, headers.get("x-should-retry"), json.error.code]).toEqual([408, "false", "deadline_exceeded"]);
    }
    slow.open();
    for (const one of held) expect((await one).status).toBe(200);
    expect(slow.asked).toBe(2);
  });
});

describe("a client that leaves", () => {
  it("while its reply is streamed frees the slot, and nothing more is sampled", async () => {
    const { ask, fetch } = await serve({ tiny: policy });
    const reader = (await fetch(path, { ...endless, stream: true })).body!.getReader();
    await reader.read();
    await expect.poll(() => policy.stats().running).toBe(1);
    await reader.cancel();
    await expect.poll(() => policy.stats().running).toBe(0);
    const { sampledTokens } = policy.stats();
    expect((await ask(path, brief)).json.usage.completion_tokens).toBe(2);
    expect(policy.stats().sampledTokens).toBe(sampledTokens + 2);
  });

  it("while it waits for a whole reply, too; and one that waits for its turn never has it", async () => {
    const { ask } = await serve({ tiny: policy });
    const leaving = new AbortController();
    const running = ask(path, endless, { signal: leaving.signal });
    await expect.poll(() => policy.stats().running).toBe(1);
    leaving.abort();
    expect((await running).status).toBe(499);
    expect(policy.stats().running).toBe(0);

    const slow = gated(policy);
    const other = await serve({ tiny: slow.policy });
    const held = [other.ask(path, brief), other.ask(path, brief)];
    await expect.poll(() => slow.asked).toBe(2);
    const left = new AbortController();
    const waiting = other.ask(path, brief, { signal: left.signal });
    const behind = other.ask(path, brief);
    left.abort();
    expect((await waiting).status).toBe(499);
    slow.open();
    for (const one of [...held, behind]) expect((await one).status).toBe(200);
    expect(slow.asked).toBe(3);
  });
});

describe("a queue", () => {
  it("that is full tells one more to come later", async () => {
    const slow = gated(policy);
    const { ask } = await serve({ tiny: slow.policy }, { maxWaiting: 1 });
    const held = [1, 2, 3].map(() => ask(path, brief));
    await expect.poll(() => slow.asked).toBe(2);
    const { status, headers, json } = await ask(path, brief);
    expect([status, json.error.code]).toEqual([429, "queue_full"]);
    expect(Number(headers.get("retry-after-ms"))).toBeGreaterThan(0);
    slow.open();
    for (const one of held) expect((await one).status).toBe(200);
  });
});

describe("a key", () => {
  it("pays nothing for what was turned away", async () => {
    const slow = gated(policy);
    const limits = { tokensPerMinute: 10_000 };
    const caller = { keyId: "k", project: "p", scopes: new Set(["infer"] as const), limits };
    const keys = { find: () => ({ kind: "ok", caller }) as const, close() {} };
    const { ask } = await serve({ tiny: slow.policy }, { maxWaiting: 0, keys });
    const init = { headers: { authorization: "Bearer k" } };
    const held = ask(path, brief, init);
    await expect.poll(() => slow.asked).toBe(1);
    const left: unknown[] = [];
    for (const _ of [1, 2, 3]) {
      const { status, headers } = await ask(path, brief, init);
      expect(status).toBe(429);
      left.push(headers.get("x-ratelimit-remaining-tokens"));
    }
    expect(new Set(left).size).toBe(1);
    slow.open();
    expect((await held).status).toBe(200);
  });
});

describe("a server that ends", () => {
  it("finishes what runs, and tells the others", async () => {
    const slow = gated(policy);
    const { ask, server } = await serve({ tiny: slow.policy });
    const running = [ask(path, brief), ask(path, brief)];
    await expect.poll(() => slow.asked).toBe(2);
    const waiting = ask(path, brief);
    const drained = server.drain(60_000);
    const draining = { status: 503, json: { error: { code: "draining" } } };
    expect(await waiting).toMatchObject(draining);
    expect(await ask(path, brief)).toMatchObject(draining);
    expect((await server.fetch(new Request("http://localhost/readyz"))).status).toBe(503);
    slow.open();
    for (const one of running) expect((await one).status).toBe(200);
    await drained;
  });

  it("ends streams that take too long, with an event", async () => {
    const { fetch, server } = await serve({ tiny: policy });
    const response = await fetch(path, { ...endless, stream: true });
    const text = response.text();
    await expect.poll(() => policy.stats().running).toBe(1);
    await server.drain(10);
    expect(JSON.parse(eventsOf(await text).at(-1)!)).toMatchObject({ error: { code: "draining" } });
    expect(policy.stats().running).toBe(0);
  });

  it("at once says so to its streams, and takes it for no failure", async () => {
    const file = join(temporaryFolder(), "log");
    const { fetch, server } = await serve({ tiny: policy }, { log: { destination: { file } } });
    const text = (await fetch(path, { ...endless, stream: true })).text();
    await expect.poll(() => policy.stats().running).toBe(1);
    await server.close();
    expect(JSON.parse(eventsOf(await text).at(-1)!)).toMatchObject({ error: { code: "draining" } });
    const lines = readFileSync(file, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Json);
    expect(lines).toMatchObject([{ event: "served", status: 200, streamed: true, errorCode: "draining" }]);
  });
});
