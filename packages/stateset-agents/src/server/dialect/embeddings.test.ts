import { afterAll, beforeAll, expect, it } from "vitest";
import { chatModel, type Json } from "../../../test/cli.ts";
import { serve } from "../../../test/serve.ts";
import { openPolicy } from "../../policy/open-policy.ts";
import type { Policy } from "../../policy/policy.ts";
import { createStubPolicy } from "../../policy/stub/stub-policy.ts";

let policy: Policy;
beforeAll(async () => {
  policy = await openPolicy({ model: await chatModel(), threads: 1 });
});
afterAll(() => policy.close());

const path = "/v1/embeddings";
const serving = (own: Policy = policy) => serve({ tiny: own });
const tokensOf = (text: string) => Int32Array.from([policy.tokenizer.bosToken!, ...policy.tokenizer.encode(text)]);
const vectors = (json: Json) => (json.data as Json[]).map(({ embedding }) => embedding as number[]);

it("gives the mean of the final hidden states, of texts and of their tokens alike", async () => {
  const { ask } = await serving();
  const [own, other] = (await policy.embed!([tokensOf("a cat"), tokensOf("a big red ball")])).map((one) => [...one]);
  const one = await ask(path, { model: "tiny", input: "a cat" });
  expect(one.json).toMatchObject({ object: "list", model: "tiny", data: [{ object: "embedding", index: 0 }] });
  expect(vectors(one.json)).toEqual([own]);
  expect(own).toHaveLength(policy.model.hiddenSize);
  const { length } = tokensOf("a cat");
  expect(one.json.usage).toEqual({ prompt_tokens: length, total_tokens: length });
  for (const input of [
    ["a cat", "a big red ball"],
    [[...tokensOf("a cat")], [...tokensOf("a big red ball")]],
  ]) {
    const { json } = await ask(path, { model: "tiny", input, dimensions: own!.length, user: "me" });
    expect(vectors(json)).toEqual([own, other]);
  }
  expect(vectors((await ask(path, { model: "tiny", input: [...tokensOf("a cat")] })).json)).toEqual([own]);
});

it("writes them in base64, as OpenAI's client asks for", async () => {
  const { ask } = await serving();
  const { json } = await ask(path, { model: "tiny", input: "a cat", encoding_format: "base64" });
  const bytes = Buffer.from(json.data[0].embedding as string, "base64");
  const numbers = Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(i * 4));
  expect(numbers).toEqual([...(await policy.embed!([tokensOf("a cat")]))[0]!]);
});

it("keeps the order of more texts than are worked on at once", async () => {
  const { ask } = await serving();
  const input = Array.from({ length: 20 }, (_, i) => "cat ".repeat(i + 1));
  const { json } = await ask(path, { model: "tiny", input });
  const alone = await policy.embed!(input.map(tokensOf));
  expect(vectors(json)).toEqual(alone.map((one) => [...one]));
});

it("embeds tokens that spell nothing", async () => {
  const { ask } = await serving();
  const tokens = Int32Array.from([policy.tokenizer.bosToken!]);
  expect(policy.tokenizer.decode(tokens)).toBe("");
  const [own] = await policy.embed!([tokens]);
  expect(vectors((await ask(path, { model: "tiny", input: [...tokens] })).json)).toEqual([[...own!]]);
});

it.each([
  [{ input: Array.from({ length: 2049 }, () => "a") }, "invalid_value", "input"],
  [{ input: "" }, "invalid_value", "input"],
  [{ input: ["a", ""] }, "invalid_value", "input"],
  [{ input: [] }, "invalid_value", "input"],
  [{ input: [999_999] }, "invalid_value", "input"],
  [{ input: "a", dimensions: 3 }, "invalid_value", "dimensions"],
  [{ input: "a", encoding_format: "int8" }, "invalid_value", "encoding_format"],
  [{ input: Array.from({ length: 129 }, () => 5) }, "context_length_exceeded", "input"],
  [{ input: "a", dimension: 3 }, "unknown_field", "dimension"],
])("refuses %j", async (over, code, param) => {
  const { ask } = await serving();
  const { status, json } = await ask(path, { model: "tiny", ...over });
  expect([status, json.error.code, json.error.param]).toEqual([400, code, param]);
  if (code === "context_length_exceeded") expect(json.error.message).toMatch(/128 tokens.*129/);
});

it("refuses where the engine has none", async () => {
  const { ask } = await serve({ plain: createStubPolicy() });
  expect((await ask(path, { model: "plain-stub", input: "a" })).status).toBe(400);
});

/** Embeds nothing before it is told to. */
function waiting(): { policy: Policy; go: () => void; asked: number[] } {
  let go = () => {};
  const gate = new Promise<void>((settle) => {
    go = settle;
  });
  const asked: number[] = [];
  const embed: Policy["embed"] = async (texts, options) => {
    asked.push(texts.length);
    await gate;
    return policy.embed!(texts, options);
  };
  const stats = () => ({ ...policy.stats(), slots: 4 });
  return { policy: Object.assign(Object.create(policy) as Policy, { embed, stats }), go, asked };
}

it("waits in the queue, where one whose deadline passed or whose client left costs nothing", async () => {
  const slow = waiting();
  const { ask } = await serving(slow.policy);
  const long = ask(path, { model: "tiny", input: Array.from({ length: 5 }, () => "a") });
  await expect.poll(() => slow.asked).toEqual([5]);
  const leaving = new AbortController();
  const left = ask(path, { model: "tiny", input: "b" }, { signal: leaving.signal });
  const late = ask(path, { model: "tiny", input: "c", deadline: 1 });
  expect(await late).toMatchObject({ status: 408, json: { error: { code: "deadline_exceeded" } } });
  leaving.abort();
  expect((await left).status).toBe(499);
  slow.go();
  expect((await long).status).toBe(200);
  // Neither of the two others reached the engine.
  expect(slow.asked).toEqual([5]);
});
