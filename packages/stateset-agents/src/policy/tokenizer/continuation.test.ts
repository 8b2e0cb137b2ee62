import { starterModelPath } from "@stateset-agents/starter-model";
import { beforeAll, describe, expect, it } from "vitest";
import { ChainBuilder } from "../../conversation/chain.ts";
import type { Message } from "../../conversation/message.ts";
import type { ToolDefinition } from "../../conversation/tool-definition.ts";
import { createRandom } from "../../random.ts";
import type { RenderOptions } from "../policy.ts";
import { createTemplateRenderer } from "./chat-template.ts";
import { createChatTokenizer, type LoadedTokenizer } from "./chat-tokenizer.ts";
import { assistant, chainOf, folder, load, record, system, user } from "./fixtures/conversations.ts";
import { byteLevelTokenizer, readTemplate } from "./fixtures/model-folders.ts";
import { realTokenizer } from "./fixtures/tokenizer-folders.ts";
import { createHuggingFaceCodec } from "./hugging-face-codec.ts";
import { loadChatTokenizer } from "./load-chat-tokenizer.ts";

const prompt = { addGenerationPrompt: true };
const spelt = (tokenizer: LoadedTokenizer, tokens: ArrayLike<number>) =>
  tokenizer.decode(tokens, { skipSpecial: false });
const call = (name: string) => ({ id: "callprobe", type: "function" as const, function: { name, arguments: "{}" } });
const result = (content: string): Message => ({ role: "tool", content, name: "look", tool_call_id: "callprobe" });
const tools: ToolDefinition[] = [
  {
    type: "function",
    function: { name: "look", description: "Looks.", parameters: { type: "object", properties: {} } },
  },
];

async function withTemplate(source: string): Promise<LoadedTokenizer> {
  const files = {
    "tokenizer.json": await byteLevelTokenizer(),
    "tokenizer_config.json": { bos_token: "<s>", eos_token: "</s>" },
  };
  return loadChatTokenizer(await folder({ ...files, "chat_template.jinja": source }));
}

/** Lets each reply be sampled as its own text, and returns what was appended before the next, or why not. */
function grow(
  tokenizer: LoadedTokenizer,
  messages: readonly Message[],
  end: string,
  options: RenderOptions = {},
): string[] {
  const steps: string[] = [];
  let chain: ChainBuilder | undefined;
  messages.forEach((message, index) => {
    if (message.role !== "assistant") return;
    const before = messages.slice(0, index);
    const next = tokenizer.extend(chain, before, { ...options, ...prompt });
    steps.push(next.kind === "append" ? spelt(tokenizer, next.tokens) : next.reason);
    if (next.kind === "append") chain!.append(next.tokens, before);
    else chain = new ChainBuilder({ ...options, messages: before, tokens: next.tokens });
    const text = `${message.reasoning ?? ""}${message.content}`;
    record(tokenizer, chain!, {
      sampled: [...tokenizer.encode(text), ...tokenizer.encode(end, { control: true })],
      message,
    });
  });
  return steps;
}

describe("what is appended after a reply", () => {
  const models: [string, string, () => Promise<LoadedTokenizer>][] = [
    ["the starter model", "<|im_end|>", () => loadChatTokenizer(starterModelPath)],
    ["chatml", "<|im_end|>", () => load("chatml")],
    ["llama3", "<|eot_id|>", () => load("llama3")],
    ["mistral", "</s>", () => load("mistral")],
    ["qwen3", "<|im_end|>", () => load("qwen3")],
    ["zephyr", "</s>", () => load("zephyr")],
    ["Qwen3's own template", "<|im_end|>", () => loadChatTokenizer(realTokenizer("qwen3"))],
    ["Llama 3.2's own template", "<|eot_id|>", () => loadChatTokenizer(realTokenizer("llama3_2"))],
    ["plain lines", "<|endoftext|>", () => loadChatTokenizer(realTokenizer("gpt2"))],
  ];

  it.each(models)("is what the whole conversation prints there: %s", async (name, end, open) => {
    const tokenizer = await open();
    const random = createRandom(4);
    for (let round = 0; round < 12; round++) {
      const messages: Message[] = random.next() < 0.5 ? [system("Be brief.")] : [];
      while (messages.filter(({ role }) => role === "assistant").length < 5) {
        messages.push(user(`question ${messages.length}`));
        const loops = name === "mistral" || name === "plain lines" ? 0 : random.below(3);
        for (let i = 0; i < loops; i++)
          messages.push(assistant("", { tool_calls: [call("look")] }), result(`result ${messages.length}`));
        messages.push(
          assistant(
            `reply ${messages.length}`,
            random.next() < 0.5 && name !== "plain lines" ? { reasoning: "So." } : {},
          ),
        );
      }
      const options = { tools: name === "mistral" ? [] : tools };
      const steps = grow(tokenizer, messages, end, options);
      const replies = [...messages.keys()].filter((i) => messages[i]!.role === "assistant");
      expect(steps[0]).toBe("first-prompt");
      for (const [n, index] of replies.entries()) {
        if (n === 0) continue;
        const whole = tokenizer.render(messages.slice(0, index), { ...options, ...prompt });
        expect(whole.endsWith(steps[n]!), `${name}: ${steps[n]}`).toBe(true);
        // It begins after the end of the reply before, and holds everything said since.
        expect(whole.slice(0, -steps[n]!.length).endsWith(end)).toBe(true);
        const said = messages.slice(replies[n - 1]! + 1, index).map(({ content }) => content);
        for (const content of said.filter((content) => whole.includes(content))) expect(steps[n]).toContain(content);
      }
    }
  });

  it("costs what is new: the template prints a few messages, however long the conversation", async () => {
    const codec = createHuggingFaceCodec(await byteLevelTokenizer(), {}, "test");
    const render = createTemplateRenderer(new Map([["default", await readTemplate("qwen3")]]), {
      tokens: {},
      today: new Date(0),
      where: "test",
    });
    let printed = 0;
    const tokenizer = createChatTokenizer({
      codec,
      endTokens: [2],
      renderer: {
        ...render,
        print(messages, options, reply) {
          printed += messages.length;
          return render.print(messages, options, reply);
        },
      },
    });
    const costs: number[] = [];
    const messages: Message[] = [system("Be brief."), user("Hi")];
    const chain = chainOf(tokenizer, messages);
    for (let turn = 0; turn < 60; turn++) {
      const reply = assistant(`reply ${turn}`, turn % 3 === 0 ? { reasoning: "So." } : {});
      record(tokenizer, chain, { sampled: `So.reply ${turn}<|im_end|>`, message: reply });
      messages.push(reply, user(`question ${turn}`));
      printed = 0;
      const next = tokenizer.extend(chain, messages, prompt);
      costs.push(printed);
      expect(next.kind).toBe("append");
      chain.append(next.tokens, messages);
    }
    // The first time, the template is tried out.
    expect(Math.max(...costs.slice(6))).toBeLessThanOrEqual(4);
  });

  it("begins with the end-of-turn token where the policy sampled none", async () => {
    const tokenizer = await load("chatml");
    for (const sampled of ["Yes", "Yes STOP"]) {
      const chain = chainOf(tokenizer, [user("Hi")], { sampled, message: assistant("Yes") });
      const next = tokenizer.extend(chain, [user("Hi"), assistant("Yes"), user("So")], prompt);
      expect(spelt(tokenizer, next.tokens)).toBe("<|im_end|>\n<|im_start|>user\nSo<|im_end|>\n<|im_start|>assistant\n");
    }
  });

  it("follows another end token that was sampled, as it is", async () => {
    const tokenizer = await loadChatTokenizer(starterModelPath);
    const chain = chainOf(tokenizer, [user("Hi")], { sampled: "Yes<|endoftext|>", message: assistant("Yes") });
    const next = tokenizer.extend(chain, [user("Hi"), assistant("Yes"), user("So")], prompt);
    expect(spelt(tokenizer, next.tokens)).toBe("\n<|im_start|>user\nSo<|im_end|>\n<|im_start|>assistant\n");
  });

  it("needs no end-of-turn token of the template", async () => {
    const tokenizer = await withTemplate(
      "{% for m in messages %}{{ m.role }}: {{ m.content | trim }}\n{% endfor %}{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}",
    );
    const chain = chainOf(tokenizer, [user("Hi")], { sampled: " Yes", message: assistant(" Yes") });
    const next = tokenizer.extend(chain, [user("Hi"), assistant(" Yes"), user("So")], prompt);
    expect(next.kind).toBe("append");
    expect(spelt(tokenizer, next.tokens)).toBe("\nuser: So\nassistant:");
  });

  it("is found after replies that the template opens otherwise in the past", async () => {
    const tokenizer = await loadChatTokenizer(realTokenizer("qwen3"));
    const options = { templateVariables: { enable_thinking: false } };
    const messages = [user("a"), assistant("A"), user("b"), assistant("B"), user("c"), assistant("C")];
    const steps = grow(tokenizer, messages, "<|im_end|>", options);
    expect(steps[1]).toBe("\n<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
    expect(steps[2]).toBe(steps[1]!.replace("b", "c"));
  });
});

describe("what templates are tried out with", () => {
  it.each(["chatml", "qwen3", "mistral", "llama3"] as const)("may be said by anybody: %s", async (name) => {
    const said = [
      "message 1.",
      "reply 1.",
      "reply 3.",
      "argument 3.",
      "PROBE",
      "callprobe",
      '{"probe":1}',
      "message 3.",
    ];
    const tokenizer = await load(name);
    const end = tokenizer.decode(tokenizer.endTokens.slice(0, 1), { skipSpecial: false });
    const talk = (texts: readonly string[]) => texts.map((text, i) => (i % 2 === 0 ? user(text) : assistant(text)));
    const other = said.map((text) => `x${text.slice(1)}`);
    const steps = grow(tokenizer, talk(said), end);
    expect(steps).toHaveLength(4);
    const renamed = grow(tokenizer, talk(other), end).map((step, i) => step.replace(other[2 * i]!, said[2 * i]!));
    expect(steps).toEqual(renamed);
  });
});

describe("a template that rewrites what stands outside replies", () => {
  /** As Mistral's: the tools stand before the last user message, and move on with it. */
  const moving =
    "{{ bos_token }}{% set last = namespace(at=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set last.at = loop.index0 %}{% endif %}{% endfor %}" +
    "{% for m in messages %}{% if m.role == 'user' %}{% if tools and loop.index0 == last.at %}[TOOLS]{{ tools | tojson }}[/TOOLS]{% endif %}[INST] {{ m.content }}[/INST]" +
    "{% elif m.role == 'assistant' %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}";

  it("starts a new chain each time it does, and says so; without tools it goes on", async () => {
    const tokenizer = await withTemplate(moving);
    const messages = [user("a"), assistant("A"), user("b"), assistant("B")];
    expect(grow(tokenizer, messages, "</s>", { tools })).toEqual(["first-prompt", "template-rewrote"]);
    expect(grow(tokenizer, messages, "</s>")).toEqual(["first-prompt", "[INST] b[/INST]"]);
  });

  it("goes on where it happens to rewrite nothing", async () => {
    const tokenizer = await withTemplate(moving);
    const messages = [user("a"), assistant("A"), assistant("B")];
    expect(grow(tokenizer, messages, "</s>", { tools })).toEqual(["first-prompt", ""]);
  });
});

describe("a template whose replies end elsewhere than with an end-of-turn token", () => {
  it("is never believed to", async () => {
    // The last reply is left open, so that the last token printed is another message's.
    const tokenizer = await withTemplate(
      "{% for m in messages %}{{ m.role }}: {{ m.content }}{% if not loop.last or m.role != 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}",
    );
    const messages = [user("a"), assistant("A"), user("b"), assistant("B")];
    expect(grow(tokenizer, messages, "</s>")).toEqual(["first-prompt", "template-rewrote"]);
  });
});

describe("tools and variables", () => {
  let tokenizer: LoadedTokenizer;
  beforeAll(async () => {
    tokenizer = await loadChatTokenizer(realTokenizer("qwen3"));
  });

  it("start a new chain when they change, and only then", () => {
    const options = { tools, templateVariables: { enable_thinking: false } };
    const messages = [user("Hi"), assistant("Yes"), user("So")];
    const chain = chainOf(tokenizer, [user("Hi")], { sampled: "Yes<|im_end|>", message: assistant("Yes") }, options);
    expect(tokenizer.extend(chain, messages, { ...structuredClone(options), ...prompt }).kind).toBe("append");
    expect(tokenizer.extend(chain, messages, { ...options, tools: [], ...prompt })).toMatchObject({
      reason: "tools-changed",
    });
    const other = { ...options, templateVariables: { enable_thinking: true }, ...prompt };
    expect(tokenizer.extend(chain, messages, other)).toMatchObject({ kind: "restart", reason: "variables-changed" });
  });

  it("reach the template, in prompts and in segments", () => {
    const options = { templateVariables: { enable_thinking: false } };
    expect(tokenizer.render([user("Hi")], { ...options, ...prompt })).toContain("<think>\n\n</think>");
    expect(tokenizer.render([user("Hi")], prompt)).not.toContain("<think>");
    const segments = tokenizer.segments([user("Hi")], { ...options, ...prompt });
    expect(segments.map((segment) => spelt(tokenizer, segment.tokens)).join("")).toContain("<think>\n\n</think>");
  });

  it("cannot take the names of what templates are given anyway", () => {
    for (const name of ["messages", "tools", "add_generation_prompt", "eos_token", "raise_exception", "true"]) {
      const options = { templateVariables: { [name]: 1 } };
      expect(() => tokenizer.render([user("Hi")], options)).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION" }),
      );
      expect(() => tokenizer.render([user("Hi")], options)).toThrow(`"${name}" cannot be set`);
    }
  });

  it("leave the role developer to templates that know it, and call it system elsewhere", async () => {
    const developer: Message = { role: "developer", content: "Be brief." };
    expect(tokenizer.render([developer, user("Hi")])).toBe(tokenizer.render([system("Be brief."), user("Hi")]));
    const knowing = await withTemplate(
      "{% for m in messages %}{{ 'D' if m.role == 'developer' else m.role }}{% endfor %}",
    );
    expect(knowing.render([developer, user("Hi")])).toBe("Duser");
    // It speaks of developers, but only to drop what they say after others.
    const dropping = await withTemplate(
      "{% for m in messages %}{% if m.role != 'developer' or loop.first %}{{ m.role }}:{{ m.content }} {% endif %}{% endfor %}",
    );
    expect(dropping.render([user("Hi"), developer, user("So")])).toBe("user:Hi system:Be brief. user:So ");
    const plain = await loadChatTokenizer(realTokenizer("gpt2"));
    expect(plain.render([developer])).toBe("System: Be brief.\n");
  });
});
