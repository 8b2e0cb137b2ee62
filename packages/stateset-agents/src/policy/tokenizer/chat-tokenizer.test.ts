import { beforeAll, describe, expect, it } from "vitest";
import type { Message } from "../../conversation/message.ts";
import type { ChatTokenizer } from "../policy.ts";
import type { LoadedTokenizer } from "./chat-tokenizer.ts";
import { assistant, chainOf, load, play, system, user } from "./fixtures/conversations.ts";
import { sentencePieceTokenizer, type TemplateName } from "./fixtures/model-folders.ts";

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
    const sampled = name === "mistral" ? " I am a" : "I am a";
    const said = chainOf(tokenizer, talk.slice(0, 2), { sampled, message: assistant(sampled) });
    const next = tokenizer.extend(said, [...talk.slice(0, 2), assistant(sampled), user("Go on")], {
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

  it("goes on with one chain although it no longer prints the reasoning: what was sampled stays", () => {
    const messages = [user("Hi"), assistant("Done.", { reasoning: "Hm." })];
    const chain = chainOf(tokenizer, [user("Hi")], { sampled: `${think("Hm.")}<|im_end|>`, message: messages[1]! });
    const next = tokenizer.extend(chain, [...messages, user("More")], { addGenerationPrompt: true });
    expect(next.kind).toBe("append");
    expect(tokenizer.decode(next.tokens, { skipSpecial: false })).toBe(
      "\n<|im_start|>user\nMore<|im_end|>\n<|im_start|>assistant\n",
    );
    const tool: Message = { role: "tool", content: "42", tool_call_id: "1" };
    const loop = tokenizer.extend(chain, [...messages, tool], { addGenerationPrompt: true });
    expect(loop.kind).toBe("append");
    expect(tokenizer.decode(loop.tokens, { skipSpecial: false })).toBe(
      "\n<|im_start|>user\n<tool_response>\n42\n</tool_response><|im_end|>\n<|im_start|>assistant\n",
    );
  });

  it("starts a new chain when it no longer prints reasoning that was not sampled", () => {
    const tool: Message = { role: "tool", content: "42", tool_call_id: "1" };
    const written = [user("Hi"), assistant("Looking.", { reasoning: "Hm." }), tool];
    const chain = chainOf(tokenizer, written, { sampled: "Done.<|im_end|>", message: assistant("Done.") });
    const next = tokenizer.extend(chain, [...written, assistant("Done."), user("More")], { addGenerationPrompt: true });
    expect(next).toMatchObject({ kind: "restart", reason: "template-rewrote" });
    expect(tokenizer.decode(chain.tokens)).toContain("Hm.");
    expect(tokenizer.decode(next.tokens)).not.toContain("Hm.");
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

  it("puts no space into what goes on after a reply", () => {
    const chain = chainOf(tokenizer, [user("Hi")], { sampled: "Yo</s>", message: assistant("Yo") });
    const next = tokenizer.extend(chain, [user("Hi"), assistant("Yo"), user("So")], { addGenerationPrompt: true });
    expect(next.kind).toBe("append");
    const all = joined(tokenizer, [user("Hi"), assistant("Yo"), user("So")]).tokens;
    expect([...next.tokens]).toEqual(all.slice(-next.tokens.length));
  });

  it("does not double the spaces a reply ended with", () => {
    const reply = assistant("Yo   ");
    const chain = chainOf(tokenizer, [user("Hi")], { sampled: "Yo   </s>", message: reply });
    const next = tokenizer.extend(chain, [user("Hi"), reply, user("So")], { addGenerationPrompt: true });
    expect(next.kind).toBe("append");
    expect(tokenizer.decode([...chain.tokens, ...next.tokens], { skipSpecial: false })).toContain("Yo   </s>");
    expect(tokenizer.decode(next.tokens, { skipSpecial: false }).trim()).toBe("[INST] So [/INST]");
  });

  it("streams bytes of one character as one piece", () => {
    const stream = tokenizer.createTextStream();
    const tokens = tokenizer.encode("Hello é🙂");
    const pieces = Array.from(tokens, (token) => stream.push(token));
    expect(pieces.join("") + stream.flush()).toBe("Hello é🙂");
    expect(pieces.join("")).not.toContain("\uFFFD");
  });
});
