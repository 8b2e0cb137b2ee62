import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Json } from "../../../../test/cli.ts";
import { type Client, clientOf, joinedChat, serve } from "../../../../test/serve.ts";
import { tinyChatModel } from "../../../../test/tiny-chat-model.ts";
import { MultiTurnAgent } from "../../../agent/multi-turn-agent.ts";
import type { Turn } from "../../../conversation/trajectory.ts";
import { defaultSampling, type Policy } from "../../../policy/policy.ts";
import { createStubPolicy } from "../../../policy/stub/stub-policy.ts";
import { seedOf } from "../../../random.ts";
import { scripted } from "../../../test-support/scripted-policy.ts";
import { createServer } from "../../create-server.ts";

let policy: Policy;
let client: Client;
beforeAll(async () => {
  policy = await tinyChatModel("hermes");
  client = clientOf(await createServer({ models: { tiny: policy } }));
});
afterAll(async () => {
  await client.server.close();
  await policy.close();
});

const path = "/v1/chat/completions";
const messages = [{ role: "user", content: "Hello" }];
const basis = { model: "tiny", messages, max_tokens: 6, seed: 3 };
const ask = (over: object = {}) => client.ask(path, { ...basis, ...over });
const look = {
  type: "function",
  function: {
    name: "look",
    parameters: {
      type: "object",
      properties: { n: { type: "integer" } },
      required: ["n"],
      additionalProperties: false,
    },
  },
};
const wait = { type: "function", function: { name: "wait", parameters: { type: "object", properties: {} } } };

describe("a reply", () => {
  it("may have 128 choices, which share their prompt, and no more", async () => {
    const long = { messages: [{ role: "user", content: "Hello there, and there, and there again." }], max_tokens: 2 };
    const before = policy.stats();
    const { status, json } = await ask({ ...long, n: 128, return_token_ids: true });
    expect([status, json.choices.length]).toEqual([200, 128]);
    expect(new Set(json.choices.map(({ index }: Json) => index as number)).size).toBe(128);
    const length = json.prompt_token_ids.length as number;
    expect(json.usage).toMatchObject({ prompt_tokens: length, total_tokens: length + json.usage.completion_tokens });
    const after = policy.stats();
    expect(after.promptTokens - before.promptTokens).toBe(128 * length);
    const computed = after.promptTokens - before.promptTokens - (after.cachedTokens - before.cachedTokens);
    // The first computes it; the others only its last token, which they go on from.
    expect(computed).toBe(length + 127);
    const more = await ask({ ...long, n: 129 });
    expect([more.status, more.json.error.param]).toEqual([400, "n"]);
  });

  it("is what the policy samples with its seed, each of n with one that follows from it", async () => {
    const { json } = await ask({ n: 3, logprobs: true, top_logprobs: 2, return_token_ids: true });
    const tokens = Int32Array.from(json.prompt_token_ids as number[]);
    expect(policy.tokenizer.decode(tokens, { skipSpecial: false })).toContain("Hello");
    const seeds = [3, seedOf(3, "choice", 1), seedOf(3, "choice", 2)];
    const sampling = { ...defaultSampling, maxTokens: 6 };
    const drawn = await policy.sample(seeds.map((seed) => ({ tokens, sampling, seed, topLogprobs: 2 })));
    for (const [i, choice] of (json.choices as Json[]).entries()) {
      expect(choice).toMatchObject({
        index: i,
        message: { role: "assistant", content: drawn[i]!.text, refusal: null },
      });
      expect(choice.token_ids).toEqual([...drawn[i]!.tokens]);
      const told = choice.logprobs.content as Json[];
      expect(told.map(({ logprob }) => logprob as number)).toEqual([...drawn[i]!.logprobs].slice(0, told.length));
      expect(told[0]!.top_logprobs.map((one: Json) => one.logprob)).toEqual(
        drawn[i]!.topLogprobs![0]!.map(({ logprob }) => logprob),
      );
    }
    const completion_tokens = drawn.reduce((sum, one) => sum + one.tokens.length, 0);
    expect(json.usage).toMatchObject({ prompt_tokens: tokens.length, completion_tokens });
    expect((await ask({ n: 3 })).json.choices.map((one: Json) => one.message)).toEqual(
      json.choices.map((one: Json) => one.message),
    );
    // Of 64 bits, and below 0, as clients draw them.
    const given = (seed: number) => ask({ seed }).then((one) => one.json.choices[0].message as Json);
    expect(await given(-(2 ** 63))).toEqual(await given(0));
    expect(await given(-3)).not.toEqual(await given(3));
    expect((await ask({ seed: 4 })).json.choices[0].message).not.toEqual(json.choices[0].message);
  });

  it("is streamed as it would be given, n of them, with the usage last", async () => {
    const body = { ...basis, n: 3, logprobs: true, top_logprobs: 2, return_token_ids: true, stop: ["e"] };
    const { json } = await client.ask(path, body);
    const { events, headers } = await client.stream(path, { ...body, stream_options: { include_usage: true } });
    const { choices, usage } = events.pop()!;
    expect([choices, usage.total_tokens]).toEqual([[], json.usage.total_tokens]);
    expect(headers.get("x-request-id")).toMatch(/^req_/);
    expect(events[0]).toMatchObject({ choices: [{ delta: { role: "assistant" } }], usage: null });
    expect(events[0]!.prompt_token_ids).toEqual(json.prompt_token_ids);
    expect(events.slice(1).some((event) => "prompt_token_ids" in event)).toBe(false);
    for (const [i, choice] of joinedChat(events).entries()) {
      const { message, logprobs, finish_reason, token_ids } = json.choices[i];
      expect(choice.message.content).toBe(message.content);
      expect(choice.logprobs?.content ?? []).toEqual(logprobs.content);
      expect([choice.finish_reason, choice.token_ids]).toEqual([finish_reason, token_ids]);
    }
  });

  it("has the agent's habits where the request says nothing else", async () => {
    const agent = new MultiTurnAgent({ policy, systemPrompt: "Be brief.", sampling: { maxTokens: 2, temperature: 0 } });
    const { ask } = await serve({ own: agent });
    const body = { model: "own", messages, return_token_ids: true };
    const { json } = await ask(path, body);
    expect(json.usage.completion_tokens).toBe(2);
    expect(policy.tokenizer.decode(json.prompt_token_ids as number[])).toContain("Be brief.");
    expect((await ask(path, body)).json.choices[0].token_ids).toEqual(json.choices[0].token_ids);
    const system = [{ role: "system", content: "Be long." }, ...messages];
    const other = (await ask(path, { ...body, messages: system, max_completion_tokens: 3 })).json;
    expect(other.usage.completion_tokens).toBe(3);
    expect(policy.tokenizer.decode(other.prompt_token_ids as number[])).not.toContain("Be brief.");
  });

  it("is given out as the agent changes it, in a stream too", async () => {
    class Loud extends MultiTurnAgent {
      protected override afterGeneration(reply: Turn): Turn {
        return { ...reply, content: `LOUD ${reply.content.toUpperCase()}` };
      }
    }
    const { ask, stream } = await serve({ tiny: new Loud({ policy }) });
    const body = { ...basis, logprobs: true, return_token_ids: true };
    const [whole] = (await ask(path, body)).json.choices;
    expect(whole.message.content).toMatch(/^LOUD /);
    const [told] = joinedChat((await stream(path, body)).events);
    expect(told!.message.content).toBe(whole.message.content);
    expect([told!.logprobs.content, told!.token_ids]).toEqual([whole.logprobs.content, whole.token_ids]);
  });

  it("carries the stub's mark in its model", async () => {
    const { ask } = await serve({ plain: createStubPolicy() });
    expect((await ask(path, { model: "plain-stub", messages })).json.model).toBe("plain-stub");
  });
});

describe("the next turn", () => {
  const call = '<tool_call>\n{"name": "look", "arguments": {"n": 1, "m": 2}}\n</tool_call>';
  const request = { model: "tiny", tools: [look], return_token_ids: true };

  it("goes on from the tokens that were sampled, however the client writes what was said", async () => {
    const { ask } = await serve({ tiny: scripted(policy, () => ({ text: call })) });
    const first = (await ask(path, { ...request, messages })).json;
    const [{ message, token_ids }] = first.choices;
    expect(message.tool_calls).toHaveLength(1);
    const chain = [...(first.prompt_token_ids as number[]), ...(token_ids as number[])];
    const [{ id }] = message.tool_calls;
    const answered = { role: "tool", tool_call_id: id, content: "seen" };
    const other = { id, type: "function", function: { name: "look", arguments: '{"m":2,"n":1}' } };
    const quirks = [
      [messages[0], message, answered],
      [{ role: "user", content: [{ type: "text", text: "Hello" }] }, message, answered],
      [messages[0], { role: "assistant", tool_calls: message.tool_calls }, answered],
      [messages[0], { role: "assistant", content: null, tool_calls: [other] }, answered],
      [messages[0], { ...message, annotations: [], audio: null, function_call: null }, answered],
    ];
    for (const said of quirks) {
      const { json } = await ask(path, { ...request, messages: said });
      expect(json.prompt_token_ids?.slice(0, chain.length), JSON.stringify(said)).toEqual(chain);
    }
    const changed = { ...answered, content: "seen" };
    const rewritten = [{ role: "user", content: "Hullo" }, message, changed];
    const { json } = await ask(path, { ...request, messages: rewritten });
    expect(json.prompt_token_ids.slice(0, chain.length)).not.toEqual(chain);
  });

  it("counts what went on and what began", async () => {
    const own = await serve({ tiny: policy });
    const { json } = await own.ask(path, { ...basis, messages });
    const said = [...messages, json.choices[0].message, { role: "user", content: "And?" }];
    await own.ask(path, { ...basis, messages: said });
    const metrics = await (await own.fetch("/metrics")).text();
    expect(metrics).toMatch(/stateset_chains_total\{.*outcome="continued".*\} 1/);
    expect(metrics).toMatch(/stateset_chains_total\{.*outcome="started".*\} 1/);
  });
});

describe("tools", () => {
  const words = "Just words.";
  const call = '<tool_call>\n{"name": "look", "arguments": {"n": 1}}\n</tool_call>';

  it("are shown or not as tool_choice says, and a malformed call stays text", async () => {
    const prompts: string[] = [];
    const malformed = '<tool_call>\n{"name": "look", "arguments": {"n": }\n</tool_call>';
    let said = call;
    const speaking = scripted(policy, ({ tokens }) => {
      prompts.push(policy.tokenizer.decode(tokens, { skipSpecial: false }));
      return { text: said };
    });
    const { ask } = await serve({ tiny: speaking });
    const messageFor = async (over: object) => (await ask(path, { ...basis, tools: [look], ...over })).json.choices[0];
    expect((await messageFor({ tool_choice: "auto" })).finish_reason).toBe("tool_calls");
    expect((await messageFor({ tool_choice: "none" })).message).not.toHaveProperty("tool_calls");
    expect(prompts.map((prompt) => prompt.includes("look"))).toEqual([true, false]);
    said = malformed;
    expect(await messageFor({})).toMatchObject({ finish_reason: "stop", message: { content: malformed } });
    said = words;
    expect(await messageFor({})).toMatchObject({ finish_reason: "stop", message: { content: words } });
  });

  const long = { max_tokens: 200, temperature: 1.5 };
  const callsOf = async (over: object) => {
    const { status, json } = await ask({ tools: [look, wait], ...long, ...over });
    expect(status, JSON.stringify(json)).toBe(200);
    return json.choices as Json[];
  };
  const namesOf = ({ message }: Json) =>
    ((message.tool_calls ?? []) as Json[]).map((one) => one.function.name as string);

  it("must be called where tool_choice requires it, by name where it names one, one alone where asked", async () => {
    for (const choice of await callsOf({ tool_choice: "required", n: 4 })) {
      expect(namesOf(choice).length, JSON.stringify(choice)).toBeGreaterThan(0);
    }
    const named = { type: "function", function: { name: "look" } };
    for (const choice of await callsOf({ tool_choice: named, parallel_tool_calls: false, n: 4 })) {
      expect(namesOf(choice)).toEqual(["look"]);
      expect(JSON.parse(choice.message.tool_calls[0].function.arguments as string)).toEqual({ n: expect.any(Number) });
    }
  });

  it("are told the same in a stream while they are sampled, and whole only if they are", async () => {
    const body = { ...basis, ...long, tools: [look, wait], tool_choice: "required", return_token_ids: true };
    for (const over of [{}, { max_tokens: 12 }]) {
      const { json } = await client.ask(path, { ...body, ...over });
      const { events } = await client.stream(path, { ...body, ...over });
      const [told] = joinedChat(events);
      const [{ message, finish_reason, token_ids }] = json.choices;
      expect(told!.message.tool_calls).toEqual(message.tool_calls);
      expect([told!.finish_reason, told!.token_ids]).toEqual([finish_reason, token_ids]);
      expect(finish_reason).toBe("max_tokens" in over ? "length" : "tool_calls");
    }
  });

  const withPattern = {
    type: "function",
    function: { name: "a", parameters: { properties: { b: { pattern: "(" } } } },
  };
  it.each([
    [{ tool_choice: "required" }, "tool_choice"],
    [{ tools: [look], tool_choice: { type: "function", function: { name: "lok" } } }, "tool_choice"],
    [{ tools: [{ type: "function", function: { name: "a b" } }] }, "tools.0.function.name"],
    [{ tools: [{ type: "custom", custom: {} }] }, "tools.0.type"],
    [
      { tools: [{ type: "function", function: { name: "a", parameters: { type: "string" } } }] },
      "tools.0.function.parameters",
    ],
    [{ tools: [withPattern], tool_choice: "required" }, "tools"],
  ])("are refused: %j", async (over, param) => {
    const { status, json } = await ask(over);
    expect([status, json.error.param]).toEqual([400, param]);
  });
});

describe("response_format", () => {
  const long = { max_tokens: 300, temperature: 1.5, n: 3 };
  const schema = {
    ...{ type: "object", required: ["ok", "name"], additionalProperties: false },
    properties: { ok: { type: "boolean" }, name: { type: "string", maxLength: 5 } },
  };
  const format = { type: "json_schema", json_schema: { name: "it", schema, strict: true } };

  it("holds the answer to JSON and to a schema", async () => {
    const held = (await ask({ ...long, response_format: format })).json.choices as Json[];
    for (const { message } of held) {
      expect(JSON.parse(message.content as string)).toEqual({ ok: expect.any(Boolean), name: expect.any(String) });
    }
    const free = (await ask({ ...long, response_format: { type: "json_object" } })).json.choices as Json[];
    for (const { message, finish_reason } of free) {
      if (finish_reason === "stop") expect(JSON.parse(message.content as string)).toBeTypeOf("object");
      expect(message.content.trimStart()[0]).toBe("{");
    }
    expect((await ask({ response_format: { type: "text" } })).status).toBe(200);
  });

  it("beside tools holds the answer, not the call", async () => {
    const choices = (await ask({ ...long, n: 12, tools: [look], response_format: format })).json.choices as Json[];
    for (const { message } of choices) {
      if (message.tool_calls) continue;
      expect(JSON.parse(message.content as string)).toHaveProperty("ok");
    }
    const required = { ...long, tools: [look], response_format: format, tool_choice: "required" };
    for (const { message } of (await ask(required)).json.choices as Json[]) {
      expect(message.tool_calls[0].function.name).toBe("look");
    }
  });

  it("is refused by name and place where it cannot be held, in words that a client understands", async () => {
    const held = (inner: object) => {
      const schema = { type: "object", properties: { a: inner }, required: ["a"] };
      return ask({ response_format: { type: "json_schema", json_schema: { name: "it", schema } } });
    };
    for (const [inner, what] of [
      [{ type: "string", pattern: "^(?=a)b" }, 'the pattern "^(?=a)b", since it looks ahead'],
      [{ not: {} }, '"not"'],
    ] as const) {
      const { status, json } = await held(inner);
      expect([status, json.error.code, json.error.param]).toEqual([400, "invalid_value", "response_format"]);
      expect(json.error.message).toContain(what);
      expect(json.error.message).toMatch(/at #\/properties\/a\)\.$/);
    }
  });

  it("is refused where the engine holds nobody to anything", async () => {
    const { ask } = await serve({ plain: createStubPolicy() });
    const { status, json } = await ask(path, { model: "plain-stub", messages, response_format: format });
    expect([status, json.error.param]).toEqual([400, "response_format"]);
  });
});

it("may ask for less than the agent's own shortest reply", async () => {
  const agent = new MultiTurnAgent({ policy, sampling: { minTokens: 8, maxTokens: 16 } });
  const { ask } = await serve({ tiny: agent });
  const { status, json } = await ask(path, { model: "tiny", messages, max_tokens: 3 });
  expect([status, json.usage?.completion_tokens]).toEqual([200, 3]);
});

describe("a request that is wrong", () => {
  it.each([
    [{ max_token: 3 }, 400, "unknown_field", "max_token", 'Did you mean "max_tokens"'],
    [{ messages: [{ role: "user", contnt: "a" }] }, 400, "unknown_field", "messages.0.contnt", '"content"'],
    [{ temperature: 3 }, 400, "invalid_value", "temperature", "2"],
    [{ model: "tny" }, 404, "model_not_found", "model", "tiny"],
    [{ messages: [] }, 400, "invalid_value", "messages", ""],
    [
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }] },
      ...([400, "unsupported_content", "messages.0.content.0", "image_url"] as const),
    ],
    [
      { messages: [{ role: "user", content: [{ type: "input_audio", input_audio: {} }] }] },
      ...([400, "unsupported_content", "messages.0.content.0", "input_audio"] as const),
    ],
    [{ messages: [{ role: "usr", content: "a" }] }, 400, "invalid_message", "messages", "usr"],
    [{ min_tokens: 5, max_tokens: 4 }, 400, "invalid_value", "min_tokens", "4 at most"],
    [{ seed: 0.5 }, 400, "invalid_value", "seed", "whole"],
    [{ stop: Array(17).fill("a") }, 400, "invalid_value", "stop", "up to 16"],
    [{ logit_bias: { "-1": 1 } }, 400, "invalid_value", "logit_bias.-1", "not a token id"],
    [{ stream_options: {} }, 400, "invalid_value", "stream_options", "stream"],
    [{ top_logprobs: 2 }, 400, "invalid_value", "top_logprobs", "logprobs"],
    [{ logit_bias: { 99999999: 1 } }, 400, "invalid_value", "logit_bias", "vocabulary"],
    [{ stop_token_ids: [99999999] }, 400, "invalid_value", "stop_token_ids", "vocabulary"],
    [{ modalities: ["audio"] }, 400, "invalid_value", "modalities.0", ""],
  ])("is told what is wrong with it: %j", async (over, status, code, param, message) => {
    const answered = await ask(over);
    expect([answered.status, answered.json.error.code, answered.json.error.param]).toEqual([status, code, param]);
    expect(answered.json.error.message).toContain(message);
  });

  it("is told both numbers where it is too long", async () => {
    const { status, json } = await ask({ messages: [{ role: "user", content: "word ".repeat(9000) }] });
    expect([status, json.error.code]).toEqual([400, "context_length_exceeded"]);
    expect(json.error.message).toMatch(/8192 tokens.* take \d{4,}/);
  });

  it("names the fields that were known and had no effect", async () => {
    const { headers, status } = await ask({ user: "me", store: true, reasoning_effort: "low", service_tier: null });
    expect([status, headers.get("x-stateset-ignored")]).toEqual([200, "reasoning_effort, store, user"]);
    expect((await ask()).headers.get("x-stateset-ignored")).toBeNull();
  });

  it("may be no JSON, of another type, too large, or to a route or a method that is not there", async () => {
    const raw = (body: string, headers = {}) => client.ask(path, body, { headers });
    expect((await raw('{"model": tiny}')).json.error).toMatchObject({ message: expect.stringMatching(/10|position/) });
    expect((await raw("[]")).json.error.code).toBe("invalid_body");
    expect((await raw("{}", { "content-type": "text/plain" })).status).toBe(415);
    const small = await serve({ tiny: policy }, { maxBodyBytes: 2048 });
    expect((await small.ask(path, JSON.stringify({ ...basis, user: "x".repeat(4096) }))).status).toBe(413);
    const get = await client.fetch(path);
    expect([get.status, get.headers.get("allow")]).toEqual([405, "POST"]);
    const remove = await client.fetch("/v1/models/tiny", undefined, { method: "DELETE" });
    expect(await remove.json()).toMatchObject({ error: { message: "/v1/models/:model takes GET, HEAD." } });
    expect((await client.fetch("/v1/nothing")).status).toBe(404);
  });
});
