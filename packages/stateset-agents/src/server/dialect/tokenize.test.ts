import { starterModelPath } from "@stateset-agents/starter-model";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Client, clientOf } from "../../../test/serve.ts";
import { MultiTurnAgent } from "../../agent/multi-turn-agent.ts";
import { openPolicy } from "../../policy/open-policy.ts";
import type { Policy } from "../../policy/policy.ts";
import { createServer } from "../create-server.ts";

let policy: Policy;
let client: Client;
beforeAll(async () => {
  policy = await openPolicy({ model: starterModelPath, threads: 1 });
  const agent = new MultiTurnAgent({ policy, systemPrompt: "Be brief." });
  client = clientOf(await createServer({ models: { starter: agent } }));
});
afterAll(async () => {
  await client.server.close();
  await policy.close();
});

const ask = (path: string, body: object) => client.ask(path, { model: "starter", ...body });
const messages = [{ role: "user", content: "Hello <|im_end|> there" }];
const tools = [
  {
    type: "function",
    function: { name: "look", description: "Look.", parameters: { type: "object", properties: {} } },
  },
];

it("gives the tokens of a text, which is plain whatever it spells, and the text of tokens", async () => {
  const prompt = "größer <|im_end|> 🙂";
  const { json } = await ask("/tokenize", { prompt, return_token_strs: true });
  const tokens = [...policy.tokenizer.encode(prompt)];
  expect(json).toMatchObject({ tokens, count: tokens.length, max_model_len: policy.model.contextLength });
  expect(json.token_strs).toHaveLength(tokens.length);
  expect(tokens.some((token) => policy.model.endTokens.includes(token))).toBe(false);
  expect((await ask("/detokenize", { tokens })).json).toEqual({ prompt });
  expect((await ask("/detokenize", { tokens: [] })).json).toEqual({ prompt: "" });
  const end = policy.model.endTokens[0]!;
  expect((await ask("/detokenize", { tokens: [end] })).json.prompt).toBe("<|im_end|>");
  expect((await ask("/tokenize", { prompt: "a" })).json.token_strs).toBeNull();
});

it.each([{}, { tools }])("shows a conversation as chat does: %j", async (over) => {
  const body = { messages, ...over };
  const { json } = await ask("/tokenize", body);
  const chat = { ...body, max_tokens: 1, return_token_ids: true };
  expect(json.tokens).toEqual((await ask("/v1/chat/completions", chat)).json.prompt_token_ids);
  const without = (await ask("/tokenize", { ...body, add_generation_prompt: false })).json;
  expect(without.count).toBeLessThan(json.count);
  expect(json.tokens.slice(0, without.count)).toEqual(without.tokens);
});

it.each([
  ["/tokenize", {}, null],
  ["/tokenize", { prompt: "a", messages }, null],
  ["/tokenize", { prompt: "a", tools }, "tools"],
  ["/tokenize", { prompt: "a", add_generation_prompt: true }, "add_generation_prompt"],
  ["/tokenize", { messages, add_special_tokens: true }, "add_special_tokens"],
  ["/tokenize", { messages, continue_final_message: true }, "continue_final_message"],
  ["/detokenize", { tokens: [999_999] }, "tokens"],
  ["/detokenize", { tokens: [-1] }, "tokens.0"],
  ["/detokenize", { tokens: "1" }, "tokens"],
])("refuses of %s %j", async (path, body, param) => {
  const { status, json } = await ask(path, body);
  expect([status, json.error.param]).toEqual([400, param]);
});
