import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chatModel, type Json } from "../../../../test/cli.ts";
import { joinedText, serve } from "../../../../test/serve.ts";
import { openPolicy } from "../../../policy/open-policy.ts";
import { defaultSampling, type Policy } from "../../../policy/policy.ts";
import { createStubPolicy } from "../../../policy/stub/stub-policy.ts";

let policy: Policy;
beforeAll(async () => {
  policy = await openPolicy({ model: await chatModel(), threads: 1 });
});
afterAll(() => policy.close());

const path = "/v1/completions";
const text = "Once upon a time";
const asked = { model: "tiny", prompt: text, max_tokens: 8, seed: 7 };
const serving = () => serve({ tiny: policy });
const promptOf = (words: string) => Int32Array.from([policy.tokenizer.bosToken!, ...policy.tokenizer.encode(words)]);
const drawn = async (over: object = {}, words = text) => {
  const sampling = { ...defaultSampling, maxTokens: 8 };
  const [sample] = await policy.sample([{ tokens: promptOf(words), sampling, seed: 7, ...over }]);
  return sample!;
};

describe("/v1/completions", () => {
  it("gives what the policy samples with that seed, as plain text behind the token that texts begin with", async () => {
    const { ask } = await serving();
    const { json } = await ask(path, { ...asked, return_token_ids: true });
    const sample = await drawn();
    expect(json).toMatchObject({
      ...{ object: "text_completion", model: "tiny", system_fingerprint: policy.version },
      choices: [{ text: sample.text, finish_reason: sample.finishReason, logprobs: null }],
    });
    expect(json.choices[0].token_ids).toEqual([...sample.tokens]);
    expect(json.choices[0].prompt_token_ids).toEqual([...promptOf(text)]);
    const prompt_tokens = promptOf(text).length;
    expect(json.usage).toMatchObject({ prompt_tokens, completion_tokens: 8, total_tokens: prompt_tokens + 8 });
  });

  it("takes what spells a control token as the text it is", async () => {
    const { ask } = await serving();
    const { json } = await ask(path, { ...asked, prompt: "a</s>b", return_token_ids: true, add_special_tokens: false });
    const ids = json.choices[0].prompt_token_ids as number[];
    expect(ids).toEqual([...policy.tokenizer.encode("a</s>b")]);
    expect(ids).not.toContain(policy.model.endTokens[0]);
  });

  it("answers tokens like the text that they are, and each of several prompts as it would be alone", async () => {
    const { ask } = await serving();
    const tokens = [...promptOf(text)];
    const other = "The cat";
    const alone = (await ask(path, { ...asked, prompt: other, n: 2 })).json.choices as Json[];
    const together = (await ask(path, { ...asked, prompt: [text, other], n: 2 })).json;
    const ofTokens = (await ask(path, { ...asked, prompt: [tokens, [...promptOf(other)]], n: 2 })).json;
    const texts = (choices: Json[]) => choices.map((choice) => choice.text as string);
    expect(texts(together.choices).slice(2)).toEqual(texts(alone));
    expect(together.choices.map((choice: Json) => choice.index as number)).toEqual([0, 1, 2, 3]);
    expect(texts(ofTokens.choices)).toEqual(texts(together.choices));
    expect(texts((await ask(path, { ...asked, prompt: tokens })).json.choices)).toEqual([(await drawn()).text]);
    // Replies to one prompt differ; the prompts are counted once each.
    expect(new Set(texts(together.choices)).size).toBe(4);
    expect(together.usage.prompt_tokens).toBe(tokens.length + promptOf(other).length);
  });

  it("scores a given text: echo, logprobs and no token more", async () => {
    const { ask } = await serving();
    const { json } = await ask(path, { ...asked, max_tokens: 0, echo: true, logprobs: 2, temperature: 0 });
    const tokens = promptOf(text);
    const { promptLogprobs, promptTopLogprobs } = await drawn({
      promptLogprobs: 2,
      sampling: { ...defaultSampling, maxTokens: 0 },
    });
    const [{ text: told, logprobs, finish_reason }] = json.choices;
    expect([told, finish_reason]).toEqual([text, "length"]);
    expect(logprobs.token_logprobs[0]).toBeNull();
    expect(logprobs.top_logprobs[0]).toBeNull();
    expect(logprobs.token_logprobs.slice(1)).toEqual([...promptLogprobs!].slice(1));
    const spelt = [...tokens].map((token) => policy.tokenizer.decode([token], { skipSpecial: false }));
    expect(logprobs.tokens).toEqual(spelt);
    // What a text begins with is no part of it.
    expect(logprobs.text_offset.slice(0, 2)).toEqual([0, 0]);
    expect(logprobs.text_offset.at(-1)).toBeLessThan(text.length);
    for (const [i, top] of logprobs.top_logprobs.entries()) {
      if (i === 0) continue;
      expect(top[spelt[i]!]).toBe(promptLogprobs![i]);
      const best = promptTopLogprobs![i]![0]!;
      expect(Math.max(...Object.values(top as Record<string, number>))).toBeCloseTo(best.logprob, 5);
    }
    expect(json.usage).toMatchObject({ completion_tokens: 0 });
  });

  it("says where each token begins, in prompt and reply together", async () => {
    const { ask } = await serving();
    const prompt = "The größte 🙂 cat";
    const body = { ...asked, prompt, logprobs: 0, add_special_tokens: false };
    const echoed = (await ask(path, { ...body, echo: true })).json.choices[0];
    const plain = (await ask(path, body)).json.choices[0];
    expect(echoed.text).toBe(prompt + plain.text);
    const { length } = policy.tokenizer.encode(prompt);
    expect(echoed.logprobs.text_offset.slice(length)).toEqual(plain.logprobs.text_offset);
    expect(plain.logprobs.text_offset[0]).toBe([...prompt].length);
    expect(echoed.logprobs.text_offset[0]).toBe(0);
    expect(echoed.logprobs.token_logprobs.slice(length)).toEqual(plain.logprobs.token_logprobs);
    expect(plain.logprobs.token_logprobs).toEqual([...(await drawnPlain(prompt)).logprobs]);
  });

  const drawnPlain = (prompt: string) => drawn({ tokens: policy.tokenizer.encode(prompt) });

  it.each([
    {},
    { n: 3, logprobs: 3 },
    { echo: true },
    { echo: true, logprobs: 1, max_tokens: 0 },
    { echo: true, logprobs: 1, n: 2, return_token_ids: true },
    { prompt: [text, "The cat"], n: 2, return_token_ids: true, logprobs: 0 },
    { stop: ["e", "a"], logprobs: 0, max_tokens: 32 },
  ])("streams what it gives at once: %j", async (over) => {
    const { ask, stream } = await serving();
    const body = { ...asked, ...over };
    const { json } = await ask(path, body);
    const told = await stream(path, { ...body, stream_options: { include_usage: true } });
    expect(told.done).toBe(true);
    const end = told.events.pop()!;
    expect(end).toMatchObject({ choices: [], usage: { ...json.usage, prompt_tokens_details: expect.anything() } });
    expect(joinedText(told.events)).toEqual(json.choices);
    expect(told.events.every(({ usage }) => usage === null)).toBe(true);
  });

  it.each([
    [{ suffix: "x" }, "suffix"],
    [{ best_of: 2 }, "best_of"],
    [{ max_tokens: 0 }, "max_tokens"],
    [{ max_tokens: 0, echo: true }, "max_tokens"],
    [{ prompt: "", add_special_tokens: false }, "prompt"],
    [{ prompt: [[1, 999_999]] }, "prompt.0"],
    [{ prompt: [-1] }, "prompt"],
    [{ prompt: [] }, "prompt"],
    [{ prompt: Array.from({ length: 65 }, () => "a"), n: 2 }, "n"],
    [{ min_tokens: 9 }, "min_tokens"],
    [{ logprobs: 21 }, "logprobs"],
    [{ stream_options: {} }, "stream_options"],
    [{ promt: "x" }, "promt"],
  ])("refuses %j", async (over, param) => {
    const { ask } = await serving();
    const { status, json } = await ask(path, { ...asked, ...over });
    expect([status, String(json.error.param).startsWith(param)]).toEqual([400, true]);
  });

  it("says how many prompts it takes, and nothing of the first of too many", async () => {
    const { ask } = await serving();
    const { status, json } = await ask(path, { ...asked, prompt: Array.from({ length: 129 }, () => "a") });
    expect([status, json.error.param]).toEqual([400, "prompt"]);
    expect(json.error.message).toContain("128 are the most");
  });

  it("says both numbers of a prompt that is too long", async () => {
    const { ask } = await serving();
    const { status, json } = await ask(path, { ...asked, prompt: Array.from({ length: 128 }, () => 5) });
    expect(status).toBe(400);
    expect(json.error).toMatchObject({ code: "context_length_exceeded", param: "prompt" });
    expect(json.error.message).toMatch(/128 tokens.*128/);
    // One less leaves room for a token.
    const full = { ...asked, min_tokens: 2, prompt: Array.from({ length: 127 }, () => 5) };
    expect((await ask(path, full)).json.usage).toMatchObject({
      completion_tokens: 1,
    });
    // Where there is no room for the shortest reply that is asked for, as much as there is.
    const short = { ...asked, prompt: Array.from({ length: 125 }, () => 5), min_tokens: 6 };
    expect((await ask(path, short)).json.usage).toMatchObject({ completion_tokens: 3 });
  });

  it("does not score with an engine that cannot, and takes best_of that changes nothing", async () => {
    const { ask } = await serve({ plain: createStubPolicy() });
    const { status } = await ask(path, { model: "plain-stub", prompt: "a", echo: true, logprobs: 0 });
    expect(status).toBe(400);
    const { json } = await ask(path, { model: "plain-stub", prompt: "a", n: 2, best_of: 2, user: "me" });
    expect(json.choices).toHaveLength(2);
  });
});
