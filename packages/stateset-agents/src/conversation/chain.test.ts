import { describe, expect, it } from "vitest";
import { ChainBuilder, type SampledReply } from "./chain.ts";
import { whyRestart } from "./continues.ts";
import type { Message } from "./message.ts";

const user = (content: string): Message => ({ role: "user", content });
const assistant = (content: string, more: Partial<Message> = {}): Message => ({ role: "assistant", content, ...more });
const reply = (content: string, text = `${content}<end>`): SampledReply => ({
  message: assistant(content),
  text,
  ended: "end-token",
});
const sample = (...tokens: number[]) => ({ tokens, logprobs: tokens.map(() => -0.5) });

describe("ChainBuilder", () => {
  it("records sampled tokens with their log-probs and turn, and marks nothing else for learning", () => {
    const chain = new ChainBuilder({ tokens: [1, 2], messages: [user("a")], started: "first-prompt" });
    chain.record({ tokens: [3, 4], logprobs: [-0.5, -0.25] }, reply("b"), 1);
    chain.append([5], [user("a"), assistant("b"), user("c")]);
    chain.record({ tokens: [6], logprobs: [-1] }, reply("d"), 3, { learn: false });
    expect([...chain.tokens]).toEqual([1, 2, 3, 4, 5, 6]);
    const built = chain.build();
    expect([...built.logprobs]).toEqual([0, 0, -0.5, -0.25, 0, -1]);
    expect([...built.learn]).toEqual([0, 0, 1, 1, 0, 0]);
    expect([...built.turn]).toEqual([-1, -1, 1, 1, -1, 3]);
    expect(built.started).toBe("first-prompt");
  });

  it("gives out arrays that later growth does not touch", () => {
    const chain = new ChainBuilder({ tokens: [1], messages: [user("a")] });
    const before = chain.build();
    chain.record(sample(2), reply("b"), 1);
    chain.append(
      Array.from({ length: 1000 }, (_, i) => i),
      [user("a"), assistant("b"), user("c")],
    );
    expect([...before.tokens]).toEqual([1]);
    const after = chain.build();
    expect(after.tokens.length).toBe(1002);
    expect(after.turn.subarray(2).every((turn) => turn === -1)).toBe(true);
  });

  it("knows which messages it stands for, and which of them were sampled", () => {
    const chain = new ChainBuilder({ tokens: [1], messages: [user("a"), assistant("written"), user("b")] });
    chain.record(sample(2), reply("c"), 3);
    chain.append([3], [...chain.messages, assistant("c"), user("d")]);
    expect(chain.messages.map(({ content }) => content)).toEqual(["a", "written", "b", "c", "d"]);
    expect([...chain.sampled]).toEqual([3]);
    expect(chain.reply).toBeUndefined();
  });

  it("forks into one that has it all and grows for itself", () => {
    const chain = new ChainBuilder({ tokens: [1], messages: [user("a")], started: "first-prompt" });
    chain.record({ ...sample(2, 3), samplerLogprobs: [-1, -2], version: "v" }, reply("b"), 1);
    chain.append([4], [user("a"), assistant("b"), user("c")]);
    chain.record(sample(5), reply("d"), 3, { learn: false });
    const before = chain.build();
    const fork = chain.fork();
    expect(fork.build()).toEqual(before);
    expect({ ...fork.reply }).toEqual(chain.reply);
    expect([fork.messages, fork.sampled, fork.prompt]).toEqual([chain.messages, chain.sampled, chain.prompt]);
    fork.append([6], [...chain.messages, assistant("d"), user("e")]);
    fork.record({ ...sample(7), version: "w" }, reply("f"), 5);
    expect([...fork.tokens]).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(fork.build().samplerLogprobs).toHaveLength(7);
    expect(chain.build()).toEqual(before);
    expect([...chain.sampled]).toEqual([1]);
  });

  it("refuses log-probs that do not match the tokens, a second reply, and a prompt without one", () => {
    const chain = new ChainBuilder({ tokens: [], messages: [] });
    expect(() => chain.record({ tokens: [1, 2], logprobs: [0] }, reply(""), 0)).toThrow("2 sampled tokens");
    expect(() => chain.append([1], [])).toThrow("only after a reply");
    chain.record(sample(1), reply("a"), 0);
    expect(() => chain.record(sample(1), reply("a"), 0)).toThrow("one reply");
  });
});

describe("a chain goes on", () => {
  const prompt = [user("a"), user("b")];
  const tools = [{ type: "function" as const, function: { name: "f", parameters: {} } }];
  const chainWith = (sampled: SampledReply, options = {}) => {
    const chain = new ChainBuilder({ ...options, tokens: [1], messages: prompt });
    chain.record(sample(2), sampled, 2);
    return chain;
  };

  it("when the messages begin with what it stands for, whatever notes are on them", () => {
    const noted = { ...user("a"), reward: 1, metadata: { x: 1 } };
    expect(whyRestart(chainWith(reply("c")), [noted, user("b"), assistant("c"), user("d")], {})).toBeUndefined();
    expect(whyRestart(chainWith(reply("c")), [...prompt, assistant("c")], { tools: [] })).toBeUndefined();
    expect(whyRestart(chainWith(reply(" c\n")), [...prompt, assistant("c")], {})).toBeUndefined();
  });

  it("when the reply was taken apart into reasoning, tool calls and the rest", () => {
    const chain = chainWith(reply("<think>hm</think> Looking.<call>f</call>"));
    const call = { id: "1", type: "function" as const, function: { name: "f", arguments: "{}" } };
    const next = (message: Message) => whyRestart(chain, [...prompt, message], {});
    expect(next(assistant("Looking.", { tool_calls: [call], reasoning: "hm" }))).toBeUndefined();
    expect(next(assistant("", { tool_calls: [call] }))).toBeUndefined();
    expect(next(assistant("Looked.", { tool_calls: [call] }))).toBe("reply-edited");
    expect(next(assistant("Looking.", { reasoning: "ah" }))).toBe("reply-edited");
    expect(next(assistant("Looking."))).toBe("reply-edited");
    // The call is gone, and nothing says where to.
    expect(next(assistant("Looking.", { reasoning: "hm" }))).toBe("reply-edited");
  });

  it("when its calls come back as they were read, however their arguments are written, and not when they were changed", () => {
    const call = (args: string, name = "f", id = "1") => ({
      id,
      type: "function" as const,
      function: { name, arguments: args },
    });
    const written = '{"a": 1.0, "b": {"c": "\u00f6", "d": [1, 2]}}';
    const sampled = { ...reply("", "<call>f</call>"), message: assistant("", { tool_calls: [call(written)] }) };
    const next = (...tool_calls: ReturnType<typeof call>[]) =>
      whyRestart(chainWith(sampled), [...prompt, assistant("", { tool_calls })], {});
    for (const same of [
      call(written),
      call('{"a":1,"b":{"c":"ö","d":[1,2]}}'),
      call('{"b":{"d":[1,2],"c":"ö"},"a":1}'),
      call(written, "f", "other"),
    ]) {
      expect(next(same)).toBeUndefined();
    }
    for (const other of [
      '{"a": 2, "b": {"c": "ö", "d": [1, 2]}}',
      '{"a": 1}',
      '{"a": 1.0, "b": {"c": "ö", "d": [2, 1]}}',
      "{",
      '"ö"',
    ]) {
      expect(next(call(other)), other).toBe("reply-edited");
    }
    expect(next(call(written, "g"))).toBe("reply-edited");
    expect(next(call(written), call(written))).toBe("reply-edited");

    // Once it is part of the prompt, its id counts too.
    const chain = new ChainBuilder({ tokens: [1], messages: [assistant("", { tool_calls: [call(written)] })] });
    chain.record(sample(2), reply("c"), 1);
    const later = (one: ReturnType<typeof call>) =>
      whyRestart(chain, [assistant("", { tool_calls: [one] }), assistant("c")], {});
    expect(later(call('{"b":{"d":[1,2],"c":"ö"},"a":1}'))).toBeUndefined();
    expect(later(call(written, "f", "other"))).toBe("messages-changed");
    expect(later(call("{}"))).toBe("messages-changed");
  });

  it("by their text where arguments are nested deeper than the stack may hold", () => {
    const deep = (space: string) => `{"a":${"[".repeat(100_000)}${space}${"]".repeat(100_000)}}`;
    const call = (args: string) => ({ id: "1", type: "function" as const, function: { name: "f", arguments: args } });
    const sampled = { ...reply(""), message: assistant("", { tool_calls: [call(deep(""))] }) };
    const next = (args: string) =>
      whyRestart(chainWith(sampled), [...prompt, assistant("", { tool_calls: [call(args)] })], {});
    expect(next(deep(""))).toBeUndefined();
    expect(next(deep(" "))).toBe("reply-edited");
  });

  it("when reasoning was split off, but not when what is left was cut or redacted", () => {
    for (const sampled of ["<think>hm</think> Your card is 1234.<|im_end|>", "[THINK]hm[/THINK]Your card is 1234."]) {
      const next = (message: Message) => whyRestart(chainWith(reply(sampled)), [...prompt, message], {});
      expect(next(assistant("Your card is 1234.", { reasoning: " hm " }))).toBeUndefined();
      for (const [content, reasoning] of [
        ["Your card is", "hm"],
        ["Your card is 1234.", "h"],
        ["", "hm"],
        ["", ""],
        ["1234.", "hm"],
      ]) {
        expect(next(assistant(content!, { reasoning: reasoning! })), content).toBe("reply-edited");
      }
    }
  });

  it("as it was, whatever becomes of the messages it was made of", () => {
    const messages = [user("a")];
    const chain = new ChainBuilder({ tokens: [1], messages });
    chain.record(sample(2), reply("c"), 1);
    messages[0]!.content = "other";
    expect(whyRestart(chain, [user("other"), assistant("c")], {})).toBe("messages-changed");
    expect(whyRestart(chain, [user("a"), assistant("c")], {})).toBeUndefined();
  });

  it("whatever the order of keys and whether they are left out, but not when a field changes that the library does not know", () => {
    const call = { id: "1", type: "function" as const, function: { name: "f", arguments: "{}" } };
    const shuffled = { function: { arguments: "{}", name: "f" }, type: "function" as const, id: "1" };
    const own = { picture: { url: "a", size: [1, 2] } };
    const said = { ...user("a"), tool_calls: [call], ...own } as Message;
    const chain = new ChainBuilder({ tokens: [1], messages: [said, user("b")] });
    chain.record(sample(2), reply("c"), 2);
    const next = (first: object, second: object = user("b")) =>
      whyRestart(chain, [first as Message, second as Message, assistant("c")], {});
    const other = { picture: { size: [1, 2], url: "a" }, tool_calls: [shuffled], content: "a", role: "user" };
    expect(next(other)).toBeUndefined();
    expect(next({ ...other, name: undefined }, { ...user("b"), tool_calls: [] })).toBeUndefined();
    expect(next({ ...other, picture: { size: [2, 1], url: "a" } })).toBe("messages-changed");
    expect(next({ ...other, picture: undefined })).toBe("messages-changed");
    expect(next({ ...other, sound: "b" })).toBe("messages-changed");
    expect(next(other, { ...user("b"), name: "Bo" })).toBe("messages-changed");
  });

  it("but not from a stop text: it was sampled, and is no part of the message", () => {
    const stopped = chainWith({ ...reply("c", "c STOP"), ended: "stop-text" });
    expect(whyRestart(stopped, [...prompt, assistant("c"), user("d")], {})).toBe("stop-text");
    for (const ended of ["end-token", "stop-token", "length"] as const) {
      const chain = chainWith({ ...reply("c"), ended });
      expect(whyRestart(chain, [...prompt, assistant("c"), user("d")], {})).toBeUndefined();
    }
  });

  it("and otherwise says why not", () => {
    const chain = chainWith(reply("c"), { tools, templateVariables: { a: 1 } });
    const same = { tools: structuredClone(tools), templateVariables: { a: 1 } };
    const next = [...prompt, assistant("c"), user("d")];
    expect(whyRestart(undefined, next, same)).toBe("first-prompt");
    expect(whyRestart(chain, next, same)).toBeUndefined();
    expect(whyRestart(chain, next, { ...same, tools: [] })).toBe("tools-changed");
    expect(whyRestart(chain, next, { ...same, templateVariables: { a: 2 } })).toBe("variables-changed");
    expect(whyRestart(chain, next.slice(1), same)).toBe("messages-changed");
    expect(whyRestart(chain, prompt, same)).toBe("messages-changed");
    expect(whyRestart(chain, [...prompt, user("c")], same)).toBe("messages-changed");
    expect(whyRestart(chain, [...prompt, assistant("[redacted]")], same)).toBe("reply-edited");
    const unanswered = new ChainBuilder({ ...same, tokens: [1], messages: prompt });
    expect(whyRestart(unanswered, next, same)).toBe("messages-changed");
  });
});
