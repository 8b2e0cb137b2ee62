/** A server on a free port, for clients that know nothing of it, and what went over it. */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openPolicy, type Policy } from "stateset-agents/policy";
import { type AgentServer, createKey, createServer, openKeyStore } from "stateset-agents/server";
import { afterAll, afterEach, beforeAll, expect, vi } from "vitest";
import { MultiTurnAgent } from "../../src/agent/multi-turn-agent.ts";
import type { StubPrompt } from "../../src/policy/stub/stub-policy.ts";
import { temporaryFolder } from "../temporary-folder.ts";
import { deviations } from "./deviations.ts";

/** One answer as it left the server; `text` grows while a stream is sent. */
export interface Sent {
  path: string;
  status: number;
  headers: Headers;
  text: string;
}

export interface RealServer {
  server: AgentServer;
  baseURL: string;
  /** May ask for everything and scrape metrics. */
  apiKey: string;
  /** May ask for ten tokens a minute: less than any request takes. */
  poorKey: string;
  /** What was sent in this test, in the order in which it was asked for. All of it must be as OpenAI's schema says. */
  sent: Sent[];
  /** The value of a metric for a model. */
  metric(name: string, model: string): Promise<number>;
}

/** At a thousand a second, longer than any test waits. */
const endlessTokens = 60_000;

/**
 * Serves, for the tests of one file:
 * - starter: the bundled model, which says little of sense but follows schemas;
 * - shop-stub: calls a tool for each order number it reads, then tells what came of them;
 * - endless-stub: talks until it is stopped;
 * - broken-stub: fails.
 */
export function realServer(): RealServer {
  const real = { sent: [] } as unknown as RealServer;
  let starter: MultiTurnAgent;
  beforeAll(async () => {
    starter = new MultiTurnAgent({ policy: await openPolicy({ threads: 1 }), sampling: { maxTokens: 32 } });
    const keyFile = join(temporaryFolder(), "keys.json");
    real.apiKey = (await createKey(keyFile, { name: "all", scopes: ["infer", "read", "metrics"] })).token;
    real.poorKey = (await createKey(keyFile, { name: "poor", tokensPerMinute: 10 })).token;
    const models = {
      starter,
      "shop-stub": await stub(shopAssistant),
      "endless-stub": new MultiTurnAgent({ policy: endless(await openPolicy({ stub: {} })), sampling }),
      "broken-stub": await stub(() => {
        throw new Error("a secret of the server");
      }),
    };
    real.server = await createServer({ models, keys: openKeyStore(keyFile), maxWaiting: 0 });
    real.server.fetch = recorded(real.server.fetch, real.sent);
    const { url } = await real.server.listen({ port: 0 });
    real.baseURL = `${url}/v1`;
    real.metric = async (name, model) => {
      const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${real.apiKey}` } });
      const line = (await answer.text()).split("\n").find((text) => text.startsWith(`${name}{model="${model}"}`));
      return Number(line?.split(" ").at(-1) ?? 0);
    };
  });
  afterEach(() => {
    const sent = real.sent.splice(0).filter(({ status, text }) => status > 0 && text !== "");
    expect(sent.flatMap(deviations)).toEqual([]);
  });
  afterAll(async () => {
    await real.server?.close();
    await starter?.close();
  });
  return real;
}

/** Waits until so many replies are sampled that go on until their clients leave. */
export async function endlessReplies({ metric }: RealServer, count: number): Promise<void> {
  const running = async () => expect(await metric("stateset_running", "endless-stub")).toBe(count);
  await vi.waitFor(running, { timeout: 10_000 });
}

const sampling = { maxTokens: endlessTokens };

async function stub(replies: (prompt: StubPrompt) => string): Promise<MultiTurnAgent> {
  return new MultiTurnAgent({ policy: await openPolicy({ stub: { replies } }), sampling });
}

function endless(policy: Policy): Policy {
  const [token] = policy.tokenizer.encode("a");
  const sample: Policy["sample"] = (requests, { signal, onToken } = {}) =>
    Promise.all(
      requests.map(async ({ sampling: { maxTokens } }, request) => {
        let count = 0;
        for (; count < maxTokens && !signal?.aborted; count++) {
          onToken?.({ request, token: token!, logprob: 0, text: "a" });
          await sleep(1);
        }
        return {
          ...{ tokens: new Int32Array(count).fill(token!), logprobs: new Float32Array(count), text: "a".repeat(count) },
          ...{ version: policy.version, finishReason: signal?.aborted ? "aborted" : "length" },
        };
      }),
    );
  // Two at a time, of one key too; a third finds no room.
  const stats: Policy["stats"] = () => ({ ...policy.stats(), slots: 2 });
  return Object.assign(Object.create(policy) as Policy, { sample, stats });
}

/** As a model would that knows what it does, in the format of its template. */
function shopAssistant({ prompt }: StubPrompt): string {
  const [, afterUser = ""] = prompt.split(/<\|im_start\|>user\n(?!.*<\|im_start\|>user\n)/s);
  const results = [...afterUser.matchAll(/<\|im_start\|>tool\n(.*?)<\|im_end\|>/gs)].map(([, result]) => result);
  if (results.length > 0) return `I found: ${results.join(" and ")}.`;
  const orders = prompt.includes('"get_order"') ? [...afterUser.matchAll(/\d{4}/g)] : [];
  const calls = orders.map(
    ([id]) => `<tool_call>\n{"name": "get_order", "arguments": {"order_id": "${id}"}}\n</tool_call>`,
  );
  return calls.join("\n") || "Which order is it? ☎";
}

/** Notes what leaves the server, without holding it up. */
function recorded(answer: AgentServer["fetch"], sent: Sent[]): AgentServer["fetch"] {
  return async (request) => {
    const note: Sent = { path: new URL(request.url).pathname, status: 0, headers: new Headers(), text: "" };
    if (note.path.startsWith("/v1/")) sent.push(note);
    const response = await answer(request);
    note.status = response.status;
    note.headers = response.headers;
    const decoder = new TextDecoder();
    const noting = new TransformStream<Uint8Array, Uint8Array>({
      transform(piece, controller) {
        note.text += decoder.decode(piece, { stream: true });
        controller.enqueue(piece);
      },
    });
    return new Response(response.body?.pipeThrough(noting) ?? null, response);
  };
}
