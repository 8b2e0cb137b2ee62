/** OpenAI's Agents SDK on chat completions, as it is. */
import { Agent, run, setDefaultOpenAIClient, setOpenAIAPI, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { endlessReplies, realServer } from "./real-server.ts";

const real = realServer();
beforeAll(() => {
  // Traces would go to OpenAI.
  setTracingDisabled(true);
  setOpenAIAPI("chat_completions");
  const { baseURL, apiKey } = real;
  setDefaultOpenAIClient(new OpenAI({ baseURL, apiKey, maxRetries: 0 }));
});

const shop = () => {
  const looked: string[] = [];
  const getOrder = tool({
    name: "get_order",
    description: "Where an order is",
    parameters: z.object({ order_id: z.string().max(8) }),
    // A small model would look up for ever.
    isEnabled: () => looked.length < 2,
    execute: ({ order_id }) => {
      looked.push(order_id);
      return `${order_id} is shipped`;
    },
  });
  return { looked, getOrder };
};
const question = "Where are 4821 and 5930?";
const found = "I found: 4821 is shipped and 5930 is shipped.";

describe("the Agents SDK", () => {
  it("runs an agent with its tools", async () => {
    const { looked, getOrder } = shop();
    const agent = new Agent({ name: "shop", model: "shop-stub", instructions: "Help.", tools: [getOrder] });
    const { finalOutput, rawResponses } = await run(agent, question);
    expect(looked).toEqual(["4821", "5930"]);
    expect(finalOutput).toBe(found);
    expect(rawResponses).toHaveLength(2);
    expect(rawResponses[0]!.usage.outputTokens).toBeGreaterThan(0);
    // The SDK asks for strict calls always, and a stub cannot be held to them.
    expect(real.sent[0]!.headers.get("x-stateset-ignored")).toBe("tools.strict");
  });

  it("streams it", async () => {
    const { looked, getOrder } = shop();
    const agent = new Agent({ name: "shop", model: "shop-stub", instructions: "Help.", tools: [getOrder] });
    const result = await run(agent, question, { stream: true });
    let words = "";
    const items: string[] = [];
    for await (const event of result) {
      if (event.type === "raw_model_stream_event" && event.data.type === "output_text_delta") words += event.data.delta;
      if (event.type === "run_item_stream_event") items.push(event.name);
    }
    await result.completed;
    expect(looked).toEqual(["4821", "5930"]);
    expect(words).toBe(found);
    expect(result.finalOutput).toBe(found);
    expect(items).toEqual(["tool_called", "tool_called", "tool_output", "tool_output", "message_output_created"]);
  });

  it.each([false, true])(
    "holds a real model to an output type after a tool it must call (streaming: %s)",
    async (stream) => {
      const { looked, getOrder } = shop();
      const outputType = z.object({ mood: z.enum(["good", "bad"]), stars: z.int().min(1).max(5) });
      const agent = new Agent({
        ...{ name: "shop", model: "starter", instructions: "Help.", tools: [getOrder], outputType },
        modelSettings: { toolChoice: "get_order", parallelToolCalls: false, maxTokens: 100, providerData: { seed: 5 } },
      });
      const input = "Where is order 4821?";
      const result = stream ? await run(agent, input, { stream }) : await run(agent, input);
      if ("completed" in result) await result.completed;
      expect(looked.length).toBeGreaterThan(0);
      expect(outputType.parse(result.finalOutput)).toEqual(result.finalOutput);
    },
  );

  it("hands over to another agent, which the model is told as a tool", async () => {
    const { getOrder } = shop();
    const orders = new Agent({ name: "orders", model: "shop-stub", instructions: "Look up.", tools: [getOrder] });
    const front = new Agent({
      ...{ name: "front", model: "starter", instructions: "Pass on.", handoffs: [orders] },
      modelSettings: { toolChoice: "transfer_to_orders", parallelToolCalls: false, maxTokens: 60 },
    });
    const { finalOutput, lastAgent } = await run(front, question);
    expect(lastAgent!.name).toBe("orders");
    expect(finalOutput).toContain("I found:");
  });

  it("leaves, and nothing is sampled for it any more", async () => {
    const leaving = new AbortController();
    const agent = new Agent({ name: "talker", model: "endless-stub" });
    const result = await run(agent, "Hello", { stream: true, signal: leaving.signal });
    for await (const event of result) {
      if (event.type !== "raw_model_stream_event" || event.data.type !== "output_text_delta") continue;
      await endlessReplies(real, 1);
      leaving.abort();
      break;
    }
    await result.completed.catch(() => {});
    await endlessReplies(real, 0);
  });

  it("gives on the errors of the server", async () => {
    const agent = new Agent({ name: "nobody", model: "startr" });
    await expect(run(agent, "Hello")).rejects.toThrow(OpenAI.NotFoundError);
  });
});
