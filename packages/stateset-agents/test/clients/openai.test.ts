/** OpenAI's own client for Node, as it is. */
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { deviations } from "./deviations.ts";
import { endlessReplies, realServer } from "./real-server.ts";

const real = realServer();
let client: OpenAI;
beforeEach(() => {
  client = new OpenAI({ baseURL: real.baseURL, apiKey: real.apiKey });
});

const question = [{ role: "user" as const, content: "Where is my parcel?" }];
const orders = [{ role: "user" as const, content: "Where are 4821 and 5930?" }];
const getOrder = {
  type: "function" as const,
  function: {
    name: "get_order",
    description: "Where an order is",
    parameters: {
      type: "object",
      properties: { order_id: { type: "string", maxLength: 8 } },
      required: ["order_id"],
      additionalProperties: false,
    },
  },
};

describe("openai for Node", () => {
  it("chats: the same seed gives the same words, and a stream gives them too", async () => {
    const asked = { model: "starter", messages: question, seed: 7, max_tokens: 12 };
    const reply = await client.chat.completions.create(asked);
    const again = await client.chat.completions.create(asked);
    const stream = await client.chat.completions.create({
      ...{ ...asked, stream: true, stream_options: { include_usage: true } },
    });
    let words = "";
    let usage: OpenAI.CompletionUsage | null | undefined;
    for await (const chunk of stream) {
      words += chunk.choices[0]?.delta.content ?? "";
      usage = chunk.usage ?? usage;
    }
    const { content } = reply.choices[0]!.message;
    expect(content).toMatch(/\w/);
    expect(again.choices[0]!.message.content).toBe(content);
    expect(words).toBe(content);
    expect(reply.usage!.completion_tokens).toBeGreaterThan(0);
    expect(usage!.total_tokens).toBe(reply.usage!.total_tokens);
    expect(reply._request_id).toBe(real.sent[0]!.headers.get("x-request-id"));
  });

  it("lists the models and looks at one", async () => {
    const { data } = await client.models.list();
    expect(data.map(({ id }) => id)).toEqual(["starter", "shop-stub", "endless-stub", "broken-stub"]);
    expect(await client.models.retrieve("starter")).toMatchObject({ object: "model", owned_by: "stateset" });
  });

  it("gives several choices", async () => {
    const asked = { model: "starter", messages: question, seed: 1, n: 3, temperature: 1.2, max_tokens: 8 };
    const { choices } = await client.chat.completions.create(asked);
    expect(choices.map(({ index }) => index)).toEqual([0, 1, 2]);
    expect(new Set(choices.map(({ message }) => message.content)).size).toBeGreaterThan(1);
  });

  it("runs tools that a reply asks for two of, with runTools", async () => {
    const looked: string[] = [];
    const runner = client.chat.completions.runTools({
      model: "shop-stub",
      messages: orders,
      tools: [
        {
          type: "function",
          function: {
            ...getOrder.function,
            parse: JSON.parse,
            function: ({ order_id }: { order_id: string }) => {
              looked.push(order_id);
              return `${order_id} is on its way`;
            },
          },
        },
      ],
    });
    expect(await runner.finalContent()).toBe("I found: 4821 is on its way and 5930 is on its way.");
    expect(looked).toEqual(["4821", "5930"]);
  });

  it("streams parallel calls, the name first and then the arguments", async () => {
    const stream = client.chat.completions.stream({ model: "shop-stub", messages: orders, tools: [getOrder] });
    const finished: unknown[] = [];
    stream.on("tool_calls.function.arguments.done", ({ arguments: text }) => finished.push(JSON.parse(text)));
    const { message, finish_reason } = (await stream.finalChatCompletion()).choices[0]!;
    expect(finish_reason).toBe("tool_calls");
    expect(message.tool_calls!.map(({ id, type }) => [id, type])).toEqual([
      ["call00001", "function"],
      ["call00002", "function"],
    ]);
    expect(finished).toEqual([{ order_id: "4821" }, { order_id: "5930" }]);
  });

  it.each([
    ["required", "required" as const],
    ["by name", { type: "function" as const, function: { name: "get_order" } }],
  ])("calls a tool that is %s, streamed or not", async (_, tool_choice) => {
    const asked = {
      ...{ model: "starter", messages: orders, seed: 3, max_tokens: 64 },
      ...{ tools: [getOrder], tool_choice, parallel_tool_calls: false },
    };
    const { choices } = await client.chat.completions.create(asked);
    const streamed = await client.chat.completions.stream(asked).finalChatCompletion();
    const calls = choices[0]!.message.tool_calls!.map((call) => call.type === "function" && call.function);
    expect(calls[0]).toMatchObject({ name: "get_order" });
    expect(JSON.parse((calls[0] as { arguments: string }).arguments)).toEqual({ order_id: expect.any(String) });
    expect(streamed.choices[0]!.message.tool_calls).toMatchObject(calls.map((call) => ({ function: call })));
    expect([choices[0]!.finish_reason, streamed.choices[0]!.finish_reason]).toEqual(["tool_calls", "tool_calls"]);
  });

  it("answers in a schema, parsed, streamed or not", async () => {
    const Verdict = z.object({
      mood: z.enum(["good", "bad"]),
      stars: z.int().min(1).max(5),
      tags: z.array(z.enum(["a", "b"])).max(2),
    });
    const asked = {
      ...{ model: "starter", messages: question, seed: 5, max_tokens: 100 },
      response_format: zodResponseFormat(Verdict, "verdict"),
    };
    const reply = await client.chat.completions.parse(asked);
    const stream = client.chat.completions.stream(asked);
    expect(Verdict.parse(reply.choices[0]!.message.parsed)).toBeTruthy();
    expect((await stream.finalChatCompletion()).choices[0]!.message.parsed).toEqual(reply.choices[0]!.message.parsed);
  });

  it("gives log-probs, the likeliest beside them, streamed or not", async () => {
    const asked = {
      ...{ model: "starter", messages: question, seed: 2, max_tokens: 5, temperature: 0 },
      ...{ logprobs: true, top_logprobs: 3 },
    };
    const { content } = (await client.chat.completions.create(asked)).choices[0]!.logprobs!;
    expect(content).toHaveLength(5);
    for (const { token, logprob, top_logprobs } of content!) {
      expect(top_logprobs).toHaveLength(3);
      expect(top_logprobs[0]).toMatchObject({ token, logprob });
      expect(logprob).toBeLessThanOrEqual(0);
    }
    const streamed = await client.chat.completions.stream(asked).finalChatCompletion();
    expect(streamed.choices[0]!.logprobs!.content).toEqual(content);
  });

  it("leaves, and nothing is sampled for it any more", async () => {
    const asked = { model: "endless-stub", messages: question };
    const leaving = new AbortController();
    const whole = client.chat.completions.create(asked, { signal: leaving.signal });
    const stream = await client.chat.completions.create({ ...asked, stream: true });
    await endlessReplies(real, 2);
    for await (const chunk of stream) if (chunk.choices[0]!.delta.content) break;
    leaving.abort();
    await expect(whole).rejects.toThrow(OpenAI.APIUserAbortError);
    await endlessReplies(real, 0);
  });
});

describe("openai for Node, told no", () => {
  const asked = { model: "starter", messages: question };
  const failure = async (promise: Promise<unknown>) =>
    promise.then(
      () => undefined,
      (error: unknown) => error,
    );

  it("knows a wrong key", async () => {
    const stranger = new OpenAI({ baseURL: real.baseURL, apiKey: "sk-wrong" });
    const error = await failure(stranger.chat.completions.create(asked));
    expect(error).toBeInstanceOf(OpenAI.AuthenticationError);
    expect(error).toMatchObject({ status: 401, code: "invalid_api_key" });
  });

  it("knows a model that is not there", async () => {
    const error = await failure(client.chat.completions.create({ ...asked, model: "startr" }));
    expect(error).toBeInstanceOf(OpenAI.NotFoundError);
    expect(error).toMatchObject({
      code: "model_not_found",
      param: "model",
      message: expect.stringContaining("starter"),
    });
  });

  it.each([
    ["a field that there is none of", { temprature: 1 }, "temprature"],
    ["a value out of range", { temperature: 9 }, "temperature"],
    [
      "an image",
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }] },
      "messages.0.content.0",
    ],
    ["more than fits", { messages: [{ role: "user", content: "long ".repeat(3000) }] }, "messages"],
  ])("knows a request with %s, and asks once", async (_, wrong, param) => {
    const error = await failure(client.chat.completions.create({ ...asked, ...wrong } as typeof asked));
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect(error).toMatchObject({ param });
    expect(real.sent).toHaveLength(1);
  });

  it("does not come again where a request can never be let in", async () => {
    const poor = new OpenAI({ baseURL: real.baseURL, apiKey: real.poorKey });
    const error = await failure(poor.chat.completions.create(asked));
    expect(error).toBeInstanceOf(OpenAI.RateLimitError);
    expect(real.sent.map(({ status }) => status)).toEqual([429]);
  });

  it("does not come again after its deadline", async () => {
    const late = { ...asked, model: "endless-stub", deadline: 20 };
    const error = await failure(client.chat.completions.create(late));
    expect(error).toMatchObject({ status: 408, code: "deadline_exceeded" });
    expect(real.sent.map(({ status }) => status)).toEqual([408]);
  });

  it("is told in a stream that has begun", async () => {
    const stream = await client.chat.completions.create({
      ...{ ...asked, model: "endless-stub", deadline: 50, stream: true as const },
    });
    const read = async () => {
      for await (const chunk of stream) expect(chunk.object).toBe("chat.completion.chunk");
    };
    expect(await failure(read())).toMatchObject({ code: "deadline_exceeded" });
  });

  it("comes again after a failure, learns nothing of it, and gives up", async () => {
    const once = client.withOptions({ maxRetries: 1 });
    const error = await failure(once.chat.completions.create({ ...asked, model: "broken-stub" }));
    expect(error).toBeInstanceOf(OpenAI.InternalServerError);
    expect(String(error)).not.toContain("secret");
    expect(real.sent.map(({ status }) => status)).toEqual([500, 500]);
  });

  it("comes again when a full queue says so", async () => {
    const endless = { model: "endless-stub", messages: question, stream: true as const };
    const streams = [await client.chat.completions.create(endless), await client.chat.completions.create(endless)];
    const timers = vi.spyOn(globalThis, "setTimeout");
    const last = client.withOptions({ maxRetries: 5 });
    const reply = last.chat.completions.create({ ...endless, stream: false, max_tokens: 4 });
    await vi.waitFor(() => expect(real.sent[2]?.status).toBe(429));
    for (const { controller } of streams) controller.abort();
    expect((await reply).choices[0]!.finish_reason).toBe("length");
    const waits = real.sent.slice(2, -1).map(({ headers }) => Number(headers.get("retry-after-ms")));
    expect(waits.length).toBeGreaterThan(0);
    for (const ms of waits) expect(timers).toHaveBeenCalledWith(expect.any(Function), ms);
    timers.mockRestore();
  });
});

// What every test here sends is checked against it.
it("OpenAI's schema refuses what is wrong", async () => {
  const tools = [getOrder];
  const stream = await client.chat.completions.create({ model: "shop-stub", messages: orders, tools, stream: true });
  for await (const chunk of stream) expect(chunk.id).toBeTruthy();
  await client.chat.completions.create({ model: "shop-stub", messages: orders, tools });
  const [streamed, whole] = real.sent as [(typeof real.sent)[0], (typeof real.sent)[0]];
  const wrong = (sent: typeof streamed, from: string | RegExp, to: string) =>
    deviations({ ...sent, text: sent.text.replace(from, to) });
  expect(wrong(streamed, '"index":1', '"index":"1"')).toHaveLength(1);
  expect(wrong(streamed, '"finish_reason":"tool_calls"', '"finish_reason":"tools"')).not.toEqual([]);
  expect(wrong(whole, '"refusal":null,', "")).toHaveLength(1);
  expect(wrong(whole, '"type":"function"', '"type":"tool"')).not.toEqual([]);
});
