/** LangChain's chat model for OpenAI, as it is. */
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI, type ChatOpenAIFields } from "@langchain/openai";
import { beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { endlessReplies, realServer } from "./real-server.ts";

const real = realServer();
beforeAll(() => {
  // Traces would go to LangSmith.
  process.env.LANGSMITH_TRACING = "false";
  process.env.LANGCHAIN_TRACING_V2 = "false";
});

const model = (name: string, more: ChatOpenAIFields = {}) =>
  new ChatOpenAI({
    ...{ model: name, apiKey: real.apiKey, configuration: { baseURL: real.baseURL }, maxRetries: 0, callbacks: [] },
    ...more,
  });
const getOrder = tool(({ order_id }) => `${order_id} is shipped`, {
  ...{ name: "get_order", description: "Where an order is" },
  schema: z.object({ order_id: z.string().max(8) }),
});

describe("LangChain", () => {
  it("invokes, streams and batches", async () => {
    const starter = model("starter", { modelKwargs: { seed: 7 }, maxTokens: 12 });
    const reply = await starter.invoke("Where is my parcel?");
    let words = "";
    let usage: unknown;
    for await (const chunk of await starter.stream("Where is my parcel?")) {
      words += chunk.text;
      usage = chunk.usage_metadata ?? usage;
    }
    expect(reply.text).toMatch(/\w/);
    expect(words).toBe(reply.text);
    // But for what the cache saved the second time.
    expect(usage).toEqual(Object.assign({}, reply.usage_metadata, { input_token_details: expect.anything() }));
    const both = await starter.batch(["Where is my parcel?", "Where is my parcel?"]);
    expect(both.map(({ text }) => text)).toEqual([reply.text, reply.text]);
  });

  it("binds tools, of which a reply asks for two, and goes on with what they gave", async () => {
    const shop = model("shop-stub").bindTools([getOrder]);
    const question = new HumanMessage("Where are 4821 and 5930?");
    const reply = await shop.invoke([question]);
    expect(reply.tool_calls!.map(({ name, args }) => [name, args])).toEqual([
      ["get_order", { order_id: "4821" }],
      ["get_order", { order_id: "5930" }],
    ]);
    const results = await Promise.all(reply.tool_calls!.map((call) => getOrder.invoke(call)));
    expect(results.every((result) => result instanceof ToolMessage)).toBe(true);
    const answer = await shop.invoke([question, reply, ...(results as ToolMessage[])]);
    expect(answer.text).toBe("I found: 4821 is shipped and 5930 is shipped.");
  });

  it("puts streamed calls together", async () => {
    const stream = await model("shop-stub").bindTools([getOrder]).stream("Where are 4821 and 5930?");
    let whole: Awaited<ReturnType<typeof stream.next>>["value"] | undefined;
    for await (const chunk of stream) whole = whole === undefined ? chunk : whole.concat(chunk);
    expect(whole!.tool_calls!.map(({ args }: { args: unknown }) => args)).toEqual([
      { order_id: "4821" },
      { order_id: "5930" },
    ]);
  });

  it.each(["jsonSchema", "functionCalling", "jsonMode"] as const)("gives structured output by %s", async (method) => {
    const Verdict = z.object({ mood: z.enum(["good", "bad"]), stars: z.int().min(1).max(5) });
    const held = model("starter", { modelKwargs: { seed: 5 }, maxTokens: 200, temperature: 0 });
    // Of JSON mode no schema is known to the model: what it gives parses, and that is all.
    const schema = method === "jsonMode" ? z.any() : Verdict;
    const verdict = await held.withStructuredOutput(schema, { method, name: "verdict" }).invoke("How was it? In JSON.");
    if (method === "jsonMode") expect(verdict).toBeDefined();
    else expect(Verdict.parse(verdict)).toEqual(verdict);
  });

  it("gives log-probs", async () => {
    const { response_metadata } = await model("starter", { logprobs: true, topLogprobs: 2, maxTokens: 4 }).invoke("Hi");
    const { content } = (response_metadata as { logprobs: { content: { top_logprobs: unknown[] }[] } }).logprobs;
    expect(content.length).toBeGreaterThan(0);
    expect(content[0]!.top_logprobs).toHaveLength(2);
  });

  it("leaves, and nothing is sampled for it any more", async () => {
    const leaving = new AbortController();
    const whole = model("endless-stub").invoke("Hello", { signal: leaving.signal });
    const left = expect(whole).rejects.toThrow(/abort/i);
    const stream = await model("endless-stub").stream("Hello", { signal: leaving.signal });
    await stream.next();
    await endlessReplies(real, 2);
    leaving.abort();
    await left;
    const rest = async () => {
      for await (const chunk of stream) expect(chunk.text).toMatch(/^a*$/);
    };
    await expect(rest()).rejects.toThrow(/abort/i);
    await endlessReplies(real, 0);
  });

  it("gives on the errors of the server, and comes again for those that may pass", async () => {
    await expect(model("startr", { maxRetries: 2 }).invoke("Hello")).rejects.toMatchObject({
      ...{ status: 404, code: "model_not_found" },
    });
    expect(real.sent).toHaveLength(1);
    await expect(model("broken-stub", { maxRetries: 1 }).invoke("Hello")).rejects.toMatchObject({ status: 500 });
    expect(real.sent.map(({ status }) => status)).toEqual([404, 500, 500]);
  });
});
