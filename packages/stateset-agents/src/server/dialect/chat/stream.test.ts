/** What is streamed is what would have been given at once: words, thoughts, calls, log-probs, tokens. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Json } from "../../../../test/cli.ts";
import { joinedChat, serve } from "../../../../test/serve.ts";
import { tinyChatModel } from "../../../../test/tiny-chat-model.ts";
import { MultiTurnAgent } from "../../../agent/multi-turn-agent.ts";
import type { Policy } from "../../../policy/policy.ts";
import { createRandom, seedOf } from "../../../random.ts";
import { callText, damaged } from "../../../test-support/damaged-calls.ts";
import { type Script, scripted } from "../../../test-support/scripted-policy.ts";
import { callFormatNames } from "../../../tool/format/call-format.ts";
import { callFormats } from "../../../tool/format/choose-format.ts";

const path = "/v1/chat/completions";
const named = (name: string) => ({ type: "function", function: { name, parameters: { type: "object" } } });
const tools = ["get_order", "cancel_order", "nothing"].map(named);
const asked = { model: "tiny", messages: [{ role: "user", content: "Where is it?" }], seed: 5 };

describe.each(callFormatNames)("calls as %s writes them", (name) => {
  const format = callFormats[name];
  let policy: Policy;
  beforeAll(async () => {
    policy = await tinyChatModel(name);
  });
  afterAll(() => policy.close());

  /** Asked twice, once at once and once as a stream, a server says the same. */
  async function saying(agent: object = {}) {
    let said: Script;
    const speaking = new MultiTurnAgent({ policy: scripted(policy, () => said), ...agent });
    const { ask, stream } = await serve({ tiny: speaking });
    return async (script: Script, over: object = {}) => {
      said = script;
      const body = { ...asked, tools, logprobs: true, return_token_ids: true, ...over };
      const { json, status } = await ask(path, body);
      expect(status, JSON.stringify(json)).toBe(200);
      const { events, done } = await stream(path, body);
      expect(done).toBe(true);
      expect(events[0]!.prompt_token_ids).toEqual(json.prompt_token_ids);
      return { whole: json.choices[0] as Json, told: joinedChat(events)[0]!, events };
    };
  }

  function expectSame({ whole, told }: { whole: Json; told: Json }, text: string): void {
    const { content, tool_calls, reasoning_content } = whole.message;
    expect(told.message.tool_calls, text).toEqual(tool_calls);
    expect(told.message.reasoning_content, text).toEqual(reasoning_content);
    expect(told.message.content, text).toBe(content ?? "");
    expect(told.finish_reason).toBe(whole.finish_reason);
    expect(told.logprobs?.content ?? []).toEqual(whole.logprobs.content);
    expect(told.token_ids).toEqual(whole.token_ids);
  }

  it("are told name first, then their arguments, the same as at once", async () => {
    const calls = [
      { name: "get_order", arguments: '{"order_id":"größer 🙂"}' },
      { name: "cancel_order", arguments: '{"note":["a\\"b"]}' },
    ];
    const text = format.print(calls);
    const { whole, told, events } = await (await saying())({ text });
    expectSame({ whole, told }, text);
    expect(whole).toMatchObject({ finish_reason: "tool_calls", message: { content: null } });
    const names = whole.message.tool_calls.map((call: { function: { name: string } }) => call.function.name);
    expect(names).toEqual(["get_order", "cancel_order"]);
    const first = events.flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? [])[0];
    expect(first).toEqual({
      ...{ index: 0, id: "call00001", type: "function" },
      function: { name: "get_order", arguments: "" },
    });
  });

  it("stay text where they cannot be read, in a stream too", async () => {
    const random = createRandom(seedOf("stream", name));
    const { tokenizer, model } = policy;
    const kinds = { calls: 0, text: 0 };
    const both = await saying();
    for (let i = 0; i < (process.env.STATESET_SOAK ? 1000 : 20); i++) {
      const tokens = tokenizer.encode(callText(format, random), { control: true });
      const ids = random.next() < 0.4 ? [...tokens] : damaged(tokens, random, tokenizer.vocabSize, model.endTokens);
      const cut = random.next() < 0.2;
      const said = cut ? ids.slice(0, 1 + random.below(ids.length)) : ids;
      const one = await both({ text: said, cut });
      expectSame(one, JSON.stringify(tokenizer.decode(said, { skipSpecial: false })));
      kinds[one.whole.message.tool_calls ? "calls" : "text"]++;
    }
    expect(Math.min(kinds.calls, kinds.text)).toBeGreaterThan(2);
  });

  it("come after what was thought, and are words where no tools are given", async () => {
    const call = format.print([{ name: "get_order", arguments: "{}" }]);
    const thinking = `<think>It is asked for.</think>Let me see. ${call}`;
    const one = await (await saying({ reasoning: true }))({ text: thinking });
    expectSame(one, thinking);
    expect(one.whole.message.reasoning_content).toBe("It is asked for.");
    const without = await (await saying())({ text: call }, { tools: undefined });
    expectSame(without, call);
    expect(without.whole.message).not.toHaveProperty("tool_calls");
  });
});
