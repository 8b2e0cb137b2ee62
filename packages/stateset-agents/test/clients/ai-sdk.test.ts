/** Vercel's AI SDK with its provider for compatible servers, as they are. */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateObject, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { endlessReplies, realServer } from "./real-server.ts";

const real = realServer();
let provider: ReturnType<typeof createOpenAICompatible>;
beforeAll(() => {
  const { baseURL, apiKey } = real;
  provider = createOpenAICompatible({
    name: "stateset",
    baseURL,
    apiKey,
    supportsStructuredOutputs: true,
    includeUsage: true,
  });
});

const prompt = "Where is my parcel?";
const shop = () => {
  const looked: string[] = [];
  const get_order = tool({
    description: "Where an order is",
    inputSchema: z.object({ order_id: z.string().max(8) }),
    execute: ({ order_id }) => {
      looked.push(order_id);
      return { order_id, status: "shipped" };
    },
  });
  return { looked, tools: { get_order }, prompt: "Where are 4821 and 5930?" };
};
const found = 'I found: {"order_id":"4821","status":"shipped"} and {"order_id":"5930","status":"shipped"}.';

describe("the AI SDK", () => {
  it("generates and streams the same text for the same seed", async () => {
    const asked = { model: provider("starter"), prompt, seed: 7, maxOutputTokens: 12 };
    const { text, usage, finishReason } = await generateText(asked);
    const streamed = streamText(asked);
    let words = "";
    for await (const piece of streamed.textStream) words += piece;
    expect(text).toMatch(/\w/);
    expect(words).toBe(text);
    expect(["stop", "length"]).toContain(finishReason);
    expect(await streamed.usage).toMatchObject({ inputTokens: usage.inputTokens, outputTokens: usage.outputTokens });
    expect(usage.outputTokens).toBeGreaterThan(0);
  });

  it("runs the tools of a reply and goes on with what they gave, over several steps", async () => {
    const { looked, ...asked } = shop();
    const { text, steps } = await generateText({ model: provider("shop-stub"), ...asked, stopWhen: stepCountIs(4) });
    expect(looked).toEqual(["4821", "5930"]);
    expect(text).toBe(found);
    expect(steps.map(({ finishReason, toolCalls }) => [finishReason, toolCalls.length])).toEqual([
      ["tool-calls", 2],
      ["stop", 0],
    ]);
  });

  it("does so in a stream", async () => {
    const { looked, ...asked } = shop();
    const result = streamText({ model: provider("shop-stub"), ...asked, stopWhen: stepCountIs(4) });
    const kinds: string[] = [];
    for await (const { type } of result.fullStream) kinds.push(type);
    expect(looked).toEqual(["4821", "5930"]);
    expect(await result.text).toBe(found);
    expect(kinds.filter((kind) => kind === "tool-call" || kind === "tool-result")).toHaveLength(4);
    expect(kinds).not.toContain("error");
  });

  it.each([
    ["required", "required" as const],
    ["by name", { type: "tool" as const, toolName: "get_order" as const }],
  ])("has a real model call a tool that is %s", async (_, toolChoice) => {
    const { looked, ...asked } = shop();
    const { toolCalls } = await generateText({
      ...{ model: provider("starter"), ...asked, toolChoice, seed: 3, maxOutputTokens: 100 },
      providerOptions: { stateset: { parallel_tool_calls: false } },
    });
    expect(toolCalls[0]).toMatchObject({ toolName: "get_order", input: { order_id: expect.any(String) } });
    expect(looked).toHaveLength(toolCalls.length);
  });

  it("gives objects of a schema, in whole and as text with an output", async () => {
    const schema = z.object({ mood: z.enum(["good", "bad"]), stars: z.int().min(1).max(5) });
    const asked = { model: provider("starter"), prompt, seed: 5, maxOutputTokens: 60 };
    const { object } = await generateObject({ ...asked, schema });
    expect(schema.parse(object)).toEqual(object);
    const { output } = await generateText({ ...asked, output: Output.object({ schema }) });
    expect(output).toEqual(object);
    const partial: unknown[] = [];
    for await (const part of streamText({ ...asked, output: Output.object({ schema }) }).partialOutputStream)
      partial.push(part);
    expect(partial.at(-1)).toEqual(object);
  });

  it("has tools beside an output: the answer is held to the schema, not the calls", async () => {
    const schema = z.object({ mood: z.enum(["good", "bad"]) });
    const { looked, ...asked } = shop();
    const { output } = await generateText({
      ...{ model: provider("starter"), ...asked, seed: 1, maxOutputTokens: 100 },
      ...{ output: Output.object({ schema }), stopWhen: stepCountIs(4) },
      prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? ("required" as const) : ("none" as const) }),
    });
    expect(looked.length).toBeGreaterThan(0);
    expect(schema.parse(output)).toEqual(output);
  });

  it("leaves, and nothing is sampled for it any more", async () => {
    const leaving = new AbortController();
    const asked = { model: provider("endless-stub"), prompt, abortSignal: leaving.signal };
    const whole = generateText(asked).catch((error: Error) => error.name);
    const streamed = streamText({ ...asked, onError: () => {} });
    for await (const part of streamed.fullStream) {
      if (part.type === "text-delta" && !leaving.signal.aborted) {
        await endlessReplies(real, 2);
        leaving.abort();
      }
    }
    expect(await whole).toBe("AbortError");
    await endlessReplies(real, 0);
  });

  it("reads the errors of the server, and comes again for those that may pass", async () => {
    const failure = (model: string, maxRetries = 0) =>
      generateText({ model: provider(model), prompt, maxRetries }).catch((error: unknown) => error);
    const unknown = await failure("startr", 2);
    expect(APICallError.isInstance(unknown)).toBe(true);
    expect(unknown).toMatchObject({ statusCode: 404, isRetryable: false, message: expect.stringContaining("starter") });
    expect(real.sent).toHaveLength(1);
    expect(await failure("broken-stub", 1)).toMatchObject({ lastError: { statusCode: 500, isRetryable: true } });
    expect(real.sent.map(({ status }) => status)).toEqual([404, 500, 500]);
  });
});
