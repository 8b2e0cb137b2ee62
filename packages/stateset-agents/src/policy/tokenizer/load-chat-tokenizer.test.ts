import { starterModelPath } from "@stateset-agents/starter-model";
import { describe, expect, it } from "vitest";
import type { RenderOptions } from "../policy.ts";
import { assistant, chainOf, folder, load, play, system, user } from "./fixtures/conversations.ts";
import { byteLevelTokenizer, configFor, readTemplate, sentencePieceTokenizer } from "./fixtures/model-folders.ts";
import starterTokens from "./fixtures/starter-tokens.json" with { type: "json" };
import { loadChatTokenizer } from "./load-chat-tokenizer.ts";

describe("loading a tokenizer", () => {
  it("gives the ids that transformers gives, for the starter model", async () => {
    const tokenizer = await loadChatTokenizer(starterModelPath);
    expect(starterTokens.length).toBeGreaterThan(50);
    for (const { text, ids } of starterTokens) {
      expect([...tokenizer.encode(text, { control: true })], text).toEqual(ids);
    }
    expect(tokenizer).toMatchObject({ vocabSize: 8192, endTokens: [2, 0], bosToken: undefined });
  });

  it("finds a template wherever a model keeps it", async () => {
    const json = await byteLevelTokenizer();
    const mark = (text: string) => `{{ '${text}' }}{{ messages[0].content }}`;
    const render = async (files: Record<string, unknown>, options: RenderOptions = {}) =>
      (await loadChatTokenizer(await folder({ "tokenizer.json": json, ...files }))).render([user("x")], options);
    const tools = [{ type: "function" as const, function: { name: "f", parameters: {} } }];
    const named = [
      { name: "default", template: mark("D") },
      { name: "tool_use", template: mark("T") },
    ];
    expect(await render({ "tokenizer_config.json": { chat_template: mark("A") } })).toBe("Ax");
    expect(await render({ "chat_template.json": { chat_template: mark("B") } })).toBe("Bx");
    const both = { "chat_template.jinja": mark("C"), "tokenizer_config.json": { chat_template: mark("A") } };
    expect(await render(both)).toBe("Cx");
    expect(await render({ "tokenizer_config.json": { chat_template: named } })).toBe("Dx");
    expect(await render({ "tokenizer_config.json": { chat_template: named } }, { tools })).toBe("Tx");
    expect(await render({ "tokenizer_config.json": { chat_template: named } }, { tools: [] })).toBe("Dx");
  });

  it("prints plain lines for a model without a template, with one beginning-of-text token", async () => {
    const config = { bos_token: "<s>", eos_token: { content: "</s>" } };
    const tokenizer = await loadChatTokenizer(
      await folder({ "tokenizer.json": sentencePieceTokenizer(), "tokenizer_config.json": config }),
    );
    const messages = [system("Be brief."), user("Hi"), assistant("Yo"), user("Bye")];
    expect(tokenizer.render(messages, { addGenerationPrompt: true })).toBe(
      "<s>System: Be brief.\nUser: Hi\nAssistant: Yo</s>\nUser: Bye\nAssistant:",
    );
    const { tokens } = tokenizer.extend(undefined, messages, { addGenerationPrompt: true });
    expect([...tokens].filter((token) => token === 1)).toHaveLength(1);
    expect(tokens[0]).toBe(1);
    expect(tokenizer).toMatchObject({ bosToken: 1, endTokens: [2] });
    const { kinds } = play(tokenizer, [user("Hi"), assistant("Yo"), user("So"), assistant("No")], "</s>");
    expect(kinds).toEqual(["restart", "append"]);
    // Without add_bos_token, nothing.
    const without = await loadChatTokenizer(
      await folder({
        "tokenizer.json": sentencePieceTokenizer(),
        "tokenizer_config.json": { ...config, add_bos_token: false },
      }),
    );
    expect(without.render([user("Hi")])).toBe("User: Hi\n");
  });

  it("appends to a plain-lines chain whose reply began with a space", async () => {
    const tokenizer = await loadChatTokenizer(
      await folder({
        "tokenizer.json": await byteLevelTokenizer(),
        "tokenizer_config.json": { eos_token: "<|endoftext|>" },
      }),
    );
    for (const content of [" Yo", "Yo", ""]) {
      const sampled = `${content === "Yo" ? " Yo" : content}<|endoftext|>`;
      const chain = chainOf(tokenizer, [user("Hi")], { sampled, message: assistant(content) });
      const next = tokenizer.extend(chain, [user("Hi"), assistant(content), user("So")]);
      expect(next.kind).toBe("append");
      expect(tokenizer.decode(next.tokens)).toBe("\nUser: So\n");
    }
  });

  it("collects end tokens from generation_config, config, tokenizer and template", async () => {
    const files = {
      "tokenizer.json": await byteLevelTokenizer(),
      "tokenizer_config.json": { ...configFor("llama3"), eos_token: "</s>" },
      "chat_template.jinja": await readTemplate("llama3"),
      "config.json": { vocab_size: 9000, eos_token_id: 2 },
    };
    expect((await loadChatTokenizer(await folder(files))).endTokens).toEqual([2, 8193, 8197]);
    const listed = { ...files, "generation_config.json": { eos_token_id: [0, 2, 8197] } };
    expect((await loadChatTokenizer(await folder(listed))).endTokens).toEqual([0, 2, 8197, 8193]);
    for (const bad of [-1, 1e9, "2", [2, null]]) {
      const wrong = { ...files, "generation_config.json": { eos_token_id: bad } };
      await expect(loadChatTokenizer(await folder(wrong))).rejects.toMatchObject({ code: "TOKENIZER_INVALID" });
    }
  });

  it("learns tokens that are only named by their ids, or in special_tokens_map.json", async () => {
    const json = await byteLevelTokenizer();
    const byId = await loadChatTokenizer(
      await folder({ "tokenizer.json": json, "config.json": { eos_token_id: 0, bos_token_id: 0 } }),
    );
    expect(byId.render([user("Hi"), assistant("Yo")])).toBe("User: Hi\nAssistant: Yo<|endoftext|>\n");
    expect(byId).toMatchObject({ endTokens: [0], bosToken: undefined });
    const map = { eos_token: { content: "<|eot_id|>" } };
    const byMap = await loadChatTokenizer(await folder({ "tokenizer.json": json, "special_tokens_map.json": map }));
    expect(byMap.render([user("Hi"), assistant("Yo")])).toContain("Yo<|eot_id|>");
  });

  it("keeps dates in prompts fixed unless told otherwise", async () => {
    const tokenizer = await load("llama3");
    expect(tokenizer.render([user("x")])).toContain("Today Date: 26 Jul 2024\n");
    const files = {
      "tokenizer.json": await byteLevelTokenizer(),
      "tokenizer_config.json": configFor("llama3"),
      "chat_template.jinja": await readTemplate("llama3"),
    };
    const dated = await loadChatTokenizer(await folder(files), { today: new Date(Date.UTC(2031, 0, 5)) });
    expect(dated.render([user("x")])).toContain("Today Date: 05 Jan 2031\n");
  });

  it("passes tool arguments as text where the template prints text, and parsed where it wants an object", async () => {
    const call = { id: "1", type: "function" as const, function: { name: "find", arguments: '{"a":1}' } };
    const messages = [user("x"), assistant("", { tool_calls: [call] })];
    expect((await load("llama3")).render(messages)).toContain('"parameters": {"a": 1}}');
    const starter = await loadChatTokenizer(starterModelPath);
    expect(starter.render(messages)).toContain('{"name": "find", "arguments": {"a":1}}');
    const raw =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ 'call ' + c['function']['arguments'] }}{% endfor %}{% endfor %}";
    const plain = await loadChatTokenizer(
      await folder({ "tokenizer.json": await byteLevelTokenizer(), "chat_template.jinja": raw }),
    );
    expect(plain.render(messages)).toBe('call {"a":1}');
  });

  it("strips as Python does", async () => {
    const content = "\n  x \n";
    const template =
      "{% set c = messages[0].content %}[{{ c.lstrip('\\n') }}|{{ c.rstrip('\\n') }}|{{ c.strip('\\n ') }}|{{ c.strip() }}|{{ c.strip(none) }}]";
    const tokenizer = await loadChatTokenizer(
      await folder({ "tokenizer.json": await byteLevelTokenizer(), "chat_template.jinja": template }),
    );
    expect(tokenizer.render([user(content)])).toBe("[  x \n|\n  x |x|x|x]");
  });

  it("leaves the end-of-turn token out of texts even where it is declared as an ordinary token", async () => {
    const json = (await byteLevelTokenizer()) as { added_tokens: { content: string; special: boolean }[] };
    for (const token of json.added_tokens) token.special = false;
    const files = { "tokenizer.json": json, "tokenizer_config.json": { eos_token: "<|im_end|>" } };
    const tokenizer = await loadChatTokenizer(await folder(files));
    expect(tokenizer.decode(tokenizer.encode("hi<|im_end|>", { control: true }))).toBe("hi");
  });

  it("refuses a tokenizer with more tokens than the model", async () => {
    const files = { "tokenizer.json": await byteLevelTokenizer(), "config.json": { vocab_size: 8192 } };
    await expect(loadChatTokenizer(await folder(files))).rejects.toThrow(
      /has 8200 tokens, but the model knows only 8192/,
    );
    await expect(loadChatTokenizer(await folder(files), { vocabSize: 8200 })).resolves.toBeDefined();
  });

  it("takes tokens that only tokenizer_config.json knows", async () => {
    const config = { added_tokens_decoder: { 8200: { content: "<|new|>", special: true, normalized: false } } };
    const tokenizer = await loadChatTokenizer(
      await folder({ "tokenizer.json": await byteLevelTokenizer(), "tokenizer_config.json": config }),
    );
    expect([...tokenizer.encode("a<|new|>b", { control: true })]).toContain(8200);
    expect(tokenizer.decode(tokenizer.encode("a<|new|>b", { control: true }))).toBe("ab");
  });

  it("names what is wrong with a folder", async () => {
    const json = await byteLevelTokenizer();
    const cases: [Record<string, unknown>, RegExp][] = [
      [{}, /has no tokenizer\.json/],
      [{ "tokenizer.json": "{" }, /tokenizer\.json is not JSON/],
      [{ "tokenizer.json": "[]" }, /tokenizer\.json is not a JSON object/],
      [{ "tokenizer.json": {} }, /cannot be built/],
      [{ "tokenizer.json": { ...json, model: { type: "Magic" } } }, /cannot be built/],
      [{ "tokenizer.json": { ...json, decoder: { type: "Magic" } } }, /cannot be built: Unknown Decoder/],
      [{ "tokenizer.json": json, "tokenizer_config.json": "null" }, /tokenizer_config\.json is not a JSON object/],
      [{ "tokenizer.json": json, "tokenizer_config.json": { chat_template: 5 } }, /neither text nor a list/],
      [
        { "tokenizer.json": json, "tokenizer_config.json": { chat_template: [{ name: "x" }] } },
        /neither text nor a list/,
      ],
      [{ "tokenizer.json": json, "chat_template.jinja": "{% if %}" }, /not valid Jinja/],
    ];
    for (const [files, message] of cases) {
      const failure = await loadChatTokenizer(await folder(files)).catch((error: unknown) => error);
      expect(failure).toMatchObject({ code: "TOKENIZER_INVALID" });
      expect(String(failure)).toMatch(message);
    }
  });

  it("tells a template's refusal from a template's failure", async () => {
    const mistral = await load("mistral");
    expect(() => mistral.render([user("a"), user("b")])).toThrow(
      /refuses these messages: Conversation roles must alternate/,
    );
    expect(() => mistral.render([])).toThrow(/no messages/);
    const broken = await loadChatTokenizer(
      await folder({
        "tokenizer.json": await byteLevelTokenizer(),
        "chat_template.jinja": "{{ messages | nonsense }}",
      }),
    );
    expect(() => broken.render([user("a")])).toThrow(expect.objectContaining({ code: "TOKENIZER_INVALID" }));
    const endless = await loadChatTokenizer(
      await folder({
        "tokenizer.json": await byteLevelTokenizer(),
        "chat_template.jinja": "{% for i in range(10000000000) %}x{% endfor %}",
      }),
    );
    expect(() => endless.render([user("a")])).toThrow(/too long/);
  });
});
