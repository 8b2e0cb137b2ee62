/** A secret and a text that are sent everywhere, looked for wherever the server tells or writes anything. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../../src/agent/multi-turn-agent.ts";
import { StatesetError } from "../../src/error.ts";
import { openPolicy } from "../../src/policy/open-policy.ts";
import { folder } from "../../src/policy/tokenizer/fixtures/conversations.ts";
import { byteLevelTokenizer, configFor } from "../../src/policy/tokenizer/fixtures/model-folders.ts";
import { loadChatTokenizer } from "../../src/policy/tokenizer/load-chat-tokenizer.ts";
import { createServer } from "../../src/server/create-server.ts";
import { nameOf, type Route } from "../../src/server/route.ts";
import { temporaryFolder } from "../temporary-folder.ts";
import {
  type Asked,
  type Attacked,
  bodiesOf,
  errorOf,
  modelName,
  openAttacked,
  requestOf,
  routes,
  textOf,
} from "./attacked-server.ts";

const content = "canary-content-4711";
/** Of the shape of a key, and not one. */
const secret = `sk-ss-fedcba9876543210-${"Zq".repeat(21)}Z`;

/** Requests that carry both wherever somebody might put them. */
function requestsFor(route: Route, key: string): Asked[] {
  const headers = { "x-api-key": secret, cookie: `key=${secret}`, "x-note": content, "x-request-id": content };
  return bodiesOf(route).flatMap((body): Asked[] => {
    if (body === undefined) return [{ key, headers }, { key: secret }, { key, name: content }];
    const texts = JSON.stringify(body).replace(/Hello|And\?|shoe|Be brief\./g, `${content} ${secret}`);
    return [
      { key, headers, body: texts },
      { key: secret, body },
      { key: `${secret} x`, body },
      { key, body: { ...body, api_key: secret } },
      { key, body: { ...body, [`${secret}`]: content } },
      { key, body: { ...body, model: secret } },
      { key, body: { ...body, messages: [{ role: secret, content }] } },
      { key, body: { ...body, messages: [{ role: "user", content, [secret]: content }] } },
      { key, body: { ...body, messages: [{ role: "user", content: [{ type: secret, text: content }] }] } },
      { key, body: { ...body, temperature: secret, stop: { [secret]: content } } },
      { key, body: { ...body, tool_choice: { type: "function", function: { name: secret } } } },
      { key, body: { ...body, priority: secret } },
      { key, body: `{"${secret}" "${content}"` },
      { key, body: `"${secret} ${content}"` },
      { key, name: secret, body },
    ];
  });
}

/** Everything that was said to clients, but for the header in which their own id comes back. */
async function askAll(attacked: Attacked, key: string): Promise<{ text: string; refusals: string }> {
  let text = "";
  let refusals = "";
  for (const route of routes) {
    for (const asked of requestsFor(route, key)) {
      const response = await attacked.ask(route, asked);
      const said = await textOf(response);
      const headers = [...response.headers].filter(([name]) => name !== "x-request-id").join();
      // Who asks for his own words gets them.
      const given = response.ok && /\\?"(?:echo|return_token_strs)\\?":true/.test(JSON.stringify(asked.body ?? ""));
      text += `${nameOf(route)} ${headers} ${given ? "" : said}\n`;
      if (response.status >= 400) refusals += said;
    }
    const query = `http://localhost${route.path}?key=${secret}&note=${content}`;
    text += await textOf(await attacked.server.fetch(new Request(query, { method: route.method })));
  }
  for (const path of ["/metrics", "/openapi.json"])
    text += await (await attacked.ask({ method: "GET", path }, { key })).text();
  return { text, refusals };
}

describe.each([false, true])("with content in the log: %s", (withContent) => {
  let attacked: Attacked;
  let key: string;
  let log: string;
  let said: { text: string; refusals: string };
  beforeAll(async () => {
    const file = join(temporaryFolder(), "server.log");
    attacked = await openAttacked({
      deadlineMs: 300,
      log: { level: "debug", content: withContent, destination: { file } },
    });
    key = await attacked.newKey();
    said = await askAll(attacked, key);
    await attacked.close();
    log = readFileSync(file, "utf8");
  });

  it("no key is in what is answered, in the log, the metrics or the list of routes", () => {
    for (const [where, text] of Object.entries({ log, ...said })) {
      expect(text.length, where).toBeGreaterThan(1000);
      for (const one of [key, secret, key.slice(-43), secret.slice(-43)]) expect(text.includes(one), where).toBe(false);
    }
  });

  it("what was said is in no log but where it is asked for", () => {
    // Of a request's id a client decides, and where it looks for it.
    const lines = log.replaceAll(`"requestId":"${content}"`, "");
    expect(lines.includes(content)).toBe(withContent);
    expect(lines.includes('"response"')).toBe(withContent);
    // Streams too.
    expect(lines.includes("chat.completion.chunk")).toBe(withContent);
  });

  it("lines of the log are one for each request, and JSON", () => {
    const lines = log.trim().split("\n");
    const event = expect.stringMatching(/^(?:served|csp-report)$/);
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ event, requestId: expect.any(String) });
    expect(lines.length).toBeGreaterThan(routes.length * 3);
  });

  it("no answer names a file, a folder or a place in the code", () => {
    expect(said.refusals).not.toMatch(/\/(?:work|home|tmp|root|usr|node_modules)\/|\.[cm]?[jt]s:\d|node:|at \w+ \(/);
    expect(said.refusals).not.toContain("internal_error");
  });
});

describe("what fails inside", () => {
  const chat: Pick<Route, "method" | "path"> = { method: "POST", path: "/v1/chat/completions" };
  const body = (messages: unknown) => ({ model: modelName, messages, max_tokens: 1 });

  it("is told by its status alone, whoever threw it", async () => {
    for (const [thrown, status] of [
      [new Error(`${content} at /home/ann/model`), 500],
      [new StatesetError("MODEL_INVALID", `${content} in /home/ann/model`), 500],
      [new StatesetError("ENGINE_FAILED", `${content} in /home/ann/model`), 503],
      [content, 500],
    ] as const) {
      const policy = await openPolicy({ model: "stub://starter" });
      const broken = { ...policy, model: { ...policy.model, stub: false }, sample: () => Promise.reject(thrown) };
      const server = await createServer({ models: { [modelName]: broken } });
      for (const stream of [false, true]) {
        const asked = { ...body([{ role: "user", content: "a" }]), stream };
        const response = await server.fetch(requestOf(chat, { body: asked }));
        const text = await response.text();
        expect(response.status, text).toBe(stream ? 200 : status);
        expect(text).toContain('"error"');
        expect(text).not.toMatch(/canary|home/);
      }
      await server.close();
    }
  });

  it("is not where the model lies, where its template refuses or cannot print what was sent", async () => {
    const template =
      "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('No tools here.') }}{% endif %}" +
      "{% if m.tool_calls %}{{ m.tool_calls[0].function.arguments | items }}{% endif %}{{ m.content }}{% endfor %}";
    const files = { "chat_template.jinja": template, "tokenizer_config.json": configFor("mistral") };
    const dir = await folder({ "tokenizer.json": await byteLevelTokenizer(), ...files });
    const tokenizer = await loadChatTokenizer(dir);
    const stub = await openPolicy({ model: "stub://starter" });
    const { vocabSize, endTokens } = tokenizer;
    const policy = { ...stub, tokenizer, model: { ...stub.model, stub: false, vocabSize, endTokens } };
    const server = await createServer({ models: { [modelName]: new MultiTurnAgent({ policy }) } });
    const call = (args: string) => ({ id: "a", type: "function", function: { name: "f", arguments: args } });
    const told: string[] = [];
    for (const messages of [
      [
        { role: "user", content: "a" },
        { role: "assistant", tool_calls: [call("{}")] },
        { role: "tool", content: "b", tool_call_id: "a" },
      ],
      [
        { role: "assistant", content: "a", tool_calls: [call("5")] },
        { role: "user", content: "b" },
      ],
    ]) {
      const response = await server.fetch(requestOf(chat, { body: body(messages) }));
      const { message } = await errorOf(response);
      expect([response.status, message.includes(dir)], message).toEqual([400, false]);
      told.push(message);
    }
    expect(told).toEqual([
      "The chat template refuses these messages: No tools here.",
      "The model's chat template cannot print these messages and tools.",
    ]);
    await server.close();
  });
});
