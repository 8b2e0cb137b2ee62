import { rm } from "node:fs/promises";
import { starterModelPath } from "@stateset-agents/starter-model";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Message } from "../../conversation/message.ts";
import { createRandom } from "../../random.ts";
import type { ChatTokenizer, RenderOptions } from "../policy.ts";
import type { LoadedTokenizer } from "./chat-tokenizer.ts";
import {
  byteLevelTokenizer,
  configFor,
  readTemplate,
  sentencePieceTokenizer,
  type TemplateName,
  writeFolder,
} from "./fixtures/model-folders.ts";
import starterTokens from "./fixtures/starter-tokens.json" with { type: "json" };
import { loadChatTokenizer } from "./load-chat-tokenizer.ts";
import { createReplyText } from "./reply-text.ts";

const folders: string[] = [];
async function folder(files: Record<string, unknown>): Promise<string> {
  const dir = await writeFolder(files);
  folders.push(dir);
  return dir;
}
afterAll(() => Promise.all(folders.map((dir) => rm(dir, { recursive: true, force: true }))));

async function load(name: TemplateName, tokenizer?: Record<string, unknown>): Promise<LoadedTokenizer> {
  const json = tokenizer ?? (await byteLevelTokenizer());
  const template = await readTemplate(name);
  return loadChatTokenizer(
    await folder({ "tokenizer.json": json, "tokenizer_config.json": configFor(name), "chat_template.jinja": template }),
  );
}

const user = (content: string): Message => ({ role: "user", content });
const assistant = (content: string, more: Partial<Message> = {}): Message => ({ role: "assistant", content, ...more });
const system = (content: string): Message => ({ role: "system", content });

/** Plays a conversation as the agent does: extend, "sample" the scripted reply, extend, … */
function play(tokenizer: LoadedTokenizer, messages: readonly Message[], end: string, options: RenderOptions = {}) {
  const kinds: string[] = [];
  let chain: { tokens: number[]; text: string; sampled: boolean[] } | undefined;
  messages.forEach((message, index) => {
    if (message.role !== "assistant") return;
    const next = tokenizer.extend(chain, messages.slice(0, index), { ...options, addGenerationPrompt: true });
    kinds.push(next.kind);
    const before = next.kind === "append" ? chain! : { tokens: [], text: "", sampled: [] };
    // A model's first word comes with its space where the tokenizer keeps spaces with words.
    const whole = tokenizer.segments(messages.slice(0, index + 1), options);
    const reply = whole
      .filter((segment) => segment.generated && segment.message === index)
      .flatMap(({ tokens }) => [...tokens]);
    expect(tokenizer.decode(reply, { skipSpecial: false }).trimStart()).toBe(message.content + end);
    chain = {
      tokens: [...before.tokens, ...next.tokens, ...reply],
      text: next.text + tokenizer.decode(reply, { skipSpecial: false }),
      sampled: [...before.sampled, ...Array.from(next.tokens, () => false), ...reply.map(() => true)],
    };
  });
  return { kinds, chain: chain! };
}

const joined = (tokenizer: ChatTokenizer, messages: readonly Message[]) => {
  const segments = tokenizer.segments(messages);
  return {
    tokens: segments.flatMap(({ tokens }) => [...tokens]),
    generated: segments.flatMap(({ tokens, generated }) => Array.from(tokens, () => generated)),
  };
};

const talk: Message[] = [
  system("Be brief."),
  user("Hello, who are you?"),
  assistant("I am a helper. 🙂"),
  user("Where is my order 1234?"),
  assistant("Your order\nis on its way!"),
  user("  Thanks  "),
  assistant("You're welcome."),
];

describe.each<[TemplateName, string]>([
  ["chatml", "<|im_end|>"],
  ["llama3", "<|eot_id|>"],
  ["mistral", "</s>"],
  ["zephyr", "</s>"],
])("with a %s template", (name, end) => {
  let tokenizer: LoadedTokenizer;
  beforeAll(async () => {
    tokenizer = await load(name);
  });

  it("grows one chain by appending only, whose text is what the template prints", () => {
    const { kinds, chain } = play(tokenizer, talk, end);
    expect(kinds).toEqual(["restart", "append", "append"]);
    expect(tokenizer.render(talk).startsWith(chain.text)).toBe(true);
    expect(tokenizer.decode(chain.tokens, { skipSpecial: false })).toBe(chain.text);
  });

  it("cuts segments that are, token for token, what sampling saw", () => {
    const { chain } = play(tokenizer, talk, end);
    const { tokens, generated } = joined(tokenizer, talk);
    expect(tokens.slice(0, chain.tokens.length)).toEqual(chain.tokens);
    expect(generated.slice(0, chain.tokens.length)).toEqual(chain.sampled);
    expect(tokens).toEqual([...chain.tokens, ...tokens.slice(chain.tokens.length)]);
  });

  it("marks exactly content and end-of-turn as generated, by message", () => {
    const segments = tokenizer.segments(talk);
    const generated = segments.filter((segment) => segment.generated);
    expect(generated.map(({ message }) => message)).toEqual([2, 4, 6]);
    expect(generated.map(({ tokens }) => tokenizer.decode(tokens, { skipSpecial: false }).trimStart())).toEqual(
      [2, 4, 6].map((index) => talk[index]!.content + end),
    );
    const order = segments.map(({ message }) => message);
    expect(order).toEqual([...order].sort((a, b) => a - b));
    expect(segments.map(({ tokens }) => tokenizer.decode(tokens, { skipSpecial: false })).join("")).toBe(
      tokenizer.render(talk),
    );
  });

  it("knows its end-of-turn token", () => {
    expect(tokenizer.endTokens.map((token) => tokenizer.decode([token], { skipSpecial: false }))).toContain(end);
  });

  it("closes a turn that ran out of tokens, without counting the end as sampled", () => {
    const prompt = tokenizer.extend(undefined, talk.slice(0, 2), { addGenerationPrompt: true });
    const reply = tokenizer.encode(name === "mistral" ? " I am a" : "I am a");
    const said = { tokens: [...prompt.tokens, ...reply], text: prompt.text + tokenizer.decode(reply) };
    const next = tokenizer.extend(said, [...talk.slice(0, 2), assistant("I am a"), user("Go on")], {
      addGenerationPrompt: true,
    });
    expect(next.kind).toBe("append");
    expect(tokenizer.decode(next.tokens, { skipSpecial: false }).startsWith(end)).toBe(true);
  });
});

describe("with a template that drops reasoning from earlier turns", () => {
  const think = (text: string) => `<think>\n${text}\n</think>\n\nDone.`;
  let tokenizer: LoadedTokenizer;
  beforeAll(async () => {
    tokenizer = await load("qwen3");
  });

  it("starts a new chain when the past was rewritten, and appends when it was not", () => {
    const prompt = tokenizer.extend(undefined, [user("Hi")], { addGenerationPrompt: true });
    const reply = tokenizer.encode(`${think("Hm.")}<|im_end|>`);
    const chain = {
      tokens: [...prompt.tokens, ...reply],
      text: prompt.text + tokenizer.decode(reply, { skipSpecial: false }),
    };
    const messages = [user("Hi"), assistant("Done.", { reasoning: "Hm." })];
    const next = tokenizer.extend(chain, [...messages, user("More")], { addGenerationPrompt: true });
    expect(next.kind).toBe("restart");
    expect(next.text).not.toContain("Hm.");
    expect(tokenizer.decode(next.tokens, { skipSpecial: false })).toBe(next.text);
    // Within a tool loop the template keeps the reasoning, so the chain goes on.
    const tool: Message = { role: "tool", content: "42", tool_call_id: "1" };
    const loop = tokenizer.extend(chain, [...messages, tool], { addGenerationPrompt: true });
    expect(loop.kind).toBe("append");
    expect(tokenizer.decode(loop.tokens, { skipSpecial: false })).toBe(
      "\n<|im_start|>user\n<tool_response>\n42\n</tool_response><|im_end|>\n<|im_start|>assistant\n",
    );
  });

  it("marks only the turn that is printed as it was written", () => {
    const messages = [user("Hi"), assistant(think("One.")), user("More"), assistant(think("Two."))];
    const segments = tokenizer.segments(messages);
    const generated = segments.filter((segment) => segment.generated);
    expect(generated.map(({ message }) => message)).toEqual([3]);
    expect(tokenizer.decode(generated[0]!.tokens, { skipSpecial: false })).toBe(`${think("Two.")}<|im_end|>`);
    const text = segments.map(({ tokens }) => tokenizer.decode(tokens, { skipSpecial: false })).join("");
    expect(text).toBe(tokenizer.render(messages));
    expect(text).not.toContain("One.");
  });
});

describe("a SentencePiece-style tokenizer", () => {
  let tokenizer: LoadedTokenizer;
  beforeAll(async () => {
    tokenizer = await load("mistral", sentencePieceTokenizer());
  });

  it("goes on with one chain although decoding drops the space before a reply", () => {
    const { kinds, chain } = play(tokenizer, talk, "</s>");
    expect(kinds).toEqual(["restart", "append", "append"]);
    expect(joined(tokenizer, talk).tokens).toEqual(chain.tokens);
    expect(chain.tokens.filter((token) => token === 1)).toHaveLength(1);
  });

  it("does not put a space into the middle of a text that goes on", () => {
    const prompt = tokenizer.extend(undefined, [user("Hi")], { addGenerationPrompt: true });
    const next = tokenizer.extend({ tokens: prompt.tokens, text: prompt.text.slice(0, -1) }, [user("Hi")]);
    expect(next.kind).toBe("append");
    expect(tokenizer.decode([...tokenizer.encode("x").slice(0, 2), ...next.tokens])).toBe("x]");
  });

  it("streams bytes of one character as one piece", () => {
    const stream = tokenizer.createTextStream();
    const tokens = tokenizer.encode("Hello é🙂");
    const pieces = Array.from(tokens, (token) => stream.push(token));
    expect(pieces.join("") + stream.flush()).toBe("Hello é🙂");
    expect(pieces.join("")).not.toContain("\uFFFD");
  });
});

describe("loading", () => {
  it("gives the ids that transformers gives, for the starter model", async () => {
    const tokenizer = await loadChatTokenizer(starterModelPath);
    expect(starterTokens.length).toBeGreaterThan(50);
    for (const { text, ids } of starterTokens) {
      expect([...tokenizer.encode(text)], text).toEqual(ids);
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
    const prompt = tokenizer.extend(undefined, [user("Hi")], { addGenerationPrompt: true });
    for (const content of [" Yo", "Yo", ""]) {
      const reply = tokenizer.encode(`${content === "Yo" ? " Yo" : content}<|endoftext|>`);
      const text = prompt.text + tokenizer.decode(reply, { skipSpecial: false });
      const messages = [user("Hi"), assistant(content), user("So")];
      expect(tokenizer.extend({ tokens: [...prompt.tokens, ...reply], text }, messages).kind).toBe("append");
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
    expect(tokenizer.decode(tokenizer.encode("hi<|im_end|>"))).toBe("hi");
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
    expect([...tokenizer.encode("a<|new|>b")]).toContain(8200);
    expect(tokenizer.decode(tokenizer.encode("a<|new|>b"))).toBe("ab");
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

describe("text", () => {
  let tokenizer: LoadedTokenizer;
  beforeAll(async () => {
    tokenizer = await loadChatTokenizer(starterModelPath);
  });

  it("comes back unchanged through tokens", () => {
    const texts = [
      "",
      " ",
      "\n\n  x",
      "naïve café",
      "🙂👩‍🚀🇦🇹",
      "日本語",
      "a\0b",
      "\u200d",
      "x".repeat(5000),
      "don't . stop , now !",
    ];
    for (const text of texts) expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
  });

  it("turns half characters into U+FFFD, everywhere alike", () => {
    expect(tokenizer.decode(tokenizer.encode("a\ud83d b\ude00"))).toBe("a\uFFFD b\uFFFD");
    const messages = [user("a\ud83d")];
    expect(tokenizer.render(messages)).toContain("a\uFFFD<|im_end|>");
    const first = tokenizer.extend(undefined, messages, { addGenerationPrompt: true });
    expect(tokenizer.extend(first, [...messages, assistant("x\udc00")]).kind).toBe("append");
  });

  it("leaves special tokens out unless asked, and prints nothing for ids that have no text", () => {
    const tokens = tokenizer.encode("<|im_start|>hi<|im_end|>");
    expect(tokens).toHaveLength(3);
    expect(tokenizer.decode(tokens)).toBe("hi");
    expect(tokenizer.decode(tokens, { skipSpecial: false })).toBe("<|im_start|>hi<|im_end|>");
    expect(tokenizer.decode([...tokens, 9999, -1])).toBe("hi");
    expect(tokenizer.decode([])).toBe("");
  });

  it("streams any token sequence into exactly its text", async () => {
    const random = createRandom(7);
    const sentencePiece = await load("mistral", sentencePieceTokenizer());
    for (const [kind, vocabulary] of [
      [tokenizer, 8200],
      [sentencePiece, 360],
    ] as const) {
      for (let round = 0; round < 300; round++) {
        // Mostly single bytes, so that broken characters of every kind occur.
        const tokens = Array.from({ length: 1 + random.below(20) }, () =>
          random.below(random.next() < 0.8 ? 262 : vocabulary),
        );
        const stream = kind.createTextStream();
        const pieces = tokens.map((token) => stream.push(token));
        expect(pieces.join("") + stream.flush(), tokens.join(" ")).toBe(kind.decode(tokens));
      }
    }
  });

  it("holds back what may become a stop text, and nothing else", () => {
    const reply = createReplyText(tokenizer.createTextStream(), ["STOP", "", "TOP!"]);
    const pieces = Array.from("ab ST x STO", (char) => reply.push(tokenizer.encode(char)[0]!));
    expect(pieces.join("")).toBe("ab ST x ");
    expect(reply.push(tokenizer.encode("P")[0]!)).toBe("");
    expect(reply).toMatchObject({ stopped: true, text: "ab ST x " });
    expect(reply.finish()).toBe("");
    const open = createReplyText(tokenizer.createTextStream(), ["STOP"]);
    for (const char of "a STO") open.push(tokenizer.encode(char)[0]!);
    expect(open.finish()).toBe("STO");
    expect(open).toMatchObject({ stopped: false, text: "a STO" });
  });
});
