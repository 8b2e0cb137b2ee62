import { describe, expect, it } from "vitest";
import type { Message } from "../conversation/message.ts";
import type { Turn } from "../conversation/trajectory.ts";
import type { Policy, Sample } from "../policy/policy.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import type { AgentContext, HookContext } from "./agent.ts";
import type { AgentOptions } from "./agent-options.ts";
import { ConversationMemory } from "./memory.ts";
import { MultiTurnAgent } from "./multi-turn-agent.ts";

const user = (content: string): Message => ({ role: "user", content });
const sampling = { maxTokens: 12 };
const newAgent = (options: AgentOptions = {}) =>
  new MultiTurnAgent({ policy: createTablePolicy({ spread: 1 }), sampling, seed: 1, ...options });

/** A policy that says given texts, word by word, whatever it is asked. */
function talking(...replies: string[]): Policy & { prompts: string[] } {
  const words = ["<think>", "</think>", ...new Set(replies.join(" ").split(/\s+/))];
  const table = createTablePolicy({ words, contextLength: 60 });
  const prompts: string[] = [];
  let next = 0;
  return {
    ...table,
    model: table.model,
    prompts,
    async sample(requests, { onToken, signal } = {}) {
      const samples: Sample[] = [];
      for (const [request, { tokens }] of requests.entries()) {
        prompts.push(table.tokenizer.decode(tokens, { skipSpecial: false }));
        const text = replies[next++ % replies.length]!;
        const pieces = text.match(/\S+\s*/g) ?? [];
        for (const piece of pieces) {
          await new Promise((resolve) => setImmediate(resolve));
          if (signal?.aborted)
            return [
              { tokens: Int32Array.of(), logprobs: Float32Array.of(), text: "", finishReason: "aborted", version: "v" },
            ];
          onToken?.({ request, token: 0, logprob: 0, text: piece });
        }
        const ids = Int32Array.from([...table.tokenizer.encode(text), table.idOf("<end>")]);
        const logprobs = new Float32Array(ids.length).fill(-1);
        samples.push({ tokens: ids, logprobs, text, finishReason: "stop", version: "v" });
      }
      return samples;
    },
  };
}

describe("a conversation's tokens", () => {
  it("are recorded once, as one growing chain, with the reply's place in the trajectory", async () => {
    const policy = createTablePolicy({ spread: 1 });
    const session = newAgent({ policy, systemPrompt: "help" }).startConversation({ seed: 7 });
    const history: Turn[] = [user("refund please")];
    for (const next of ["order late", "thanks", "no"]) {
      const reply = await session.reply(history);
      if (reply.kind !== "reply") throw new Error("unexpected");
      history.push(reply.turn, user(next));
    }
    const [chain, ...others] = session.chains();
    expect(others).toEqual([]);
    const sampled = (turn: number) => chain!.tokens.filter((_, i) => chain!.turn[i] === turn);
    expect(policy.tokenizer.decode(sampled(1))).toBe(history[1]!.content);
    expect(policy.tokenizer.decode(sampled(3))).toBe(history[3]!.content);
    expect(policy.tokenizer.decode(sampled(5))).toBe(history[5]!.content);
    expect([...chain!.learn]).toEqual(Array.from(chain!.turn, (turn) => (turn >= 0 ? 1 : 0)));
    // The whole chain is what the template prints for the whole conversation: nothing was lost or doubled.
    const rendered = policy.tokenizer.render([{ role: "system", content: "help" }, ...history.slice(0, 6)]);
    const complete = rendered.endsWith("<end> ") && chain!.tokens.at(-1) !== policy.idOf("<end>") ? 1 : 0;
    expect([...chain!.tokens]).toEqual(
      [...policy.tokenizer.encode(rendered, { control: true })].slice(0, complete ? -1 : undefined),
    );
  });

  it("score under the policy exactly as they were sampled", async () => {
    const policy = createTablePolicy({ spread: 1 });
    const session = newAgent({ policy }).startConversation({ seed: 7, temperature: 0.7 });
    await session.reply([user("refund please")]);
    const chain = session.chains()[0]!;
    const pass = await policy.forward(
      {
        tokens: chain.tokens,
        nodeStart: Int32Array.of(0, chain.tokens.length),
        nodeParent: Int32Array.of(-1),
        wanted: chain.learn,
      },
      { temperature: session.temperature },
    );
    expect(pass.logprobs).toEqual(chain.logprobs);
  });

  it("start a new chain when a hook rewrites what was said, and keep the old one as sampled", async () => {
    class Shouting extends MultiTurnAgent {
      protected override afterGeneration(reply: Turn): Turn {
        return { ...reply, content: "OK" };
      }
    }
    const agent = new Shouting({ policy: createTablePolicy({ spread: 1 }), sampling, seed: 1 });
    const session = agent.startConversation({ seed: 3 });
    const first = await session.reply([user("help")]);
    if (first.kind !== "reply") throw new Error("unexpected");
    expect(first.turn.content).toBe("OK");
    const before = session.chains()[0]!;
    await session.reply([user("help"), first.turn, user("no")]);
    const [kept, fresh] = session.chains();
    expect(kept).toEqual(before);
    expect([kept!.started, fresh!.started]).toEqual(["first-prompt", "reply-edited"]);
    expect(fresh!.turn.includes(1)).toBe(false);
    expect(fresh!.turn.includes(3)).toBe(true);
  });

  it("depend on the seed, and on nothing said elsewhere", async () => {
    const agent = newAgent();
    const say = async (seed: number) => {
      const session = agent.startConversation({ seed });
      await session.reply([user("help")]);
      return session.chains()[0]!.tokens.join(" ");
    };
    const alone = await say(5);
    const together = await Promise.all([say(4), say(5), say(6)]);
    expect(together[1]).toBe(alone);
    expect(new Set(together).size).toBe(3);
  });

  it("are not marked for learning when the conversation is not for learning", async () => {
    const session = newAgent().startConversation({ seed: 1, learn: false });
    await session.reply([user("help")]);
    expect(session.chains()[0]!.learn.includes(1)).toBe(false);
  });

  it("stay as they were when a reply is interrupted", async () => {
    const session = newAgent().startConversation({ seed: 1 });
    const first = await session.reply([user("help")]);
    if (first.kind !== "reply") throw new Error("unexpected");
    const before = session.chains();
    const next = [user("help"), first.turn, user("ok")];
    await expect(session.reply(next, { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "ABORTED" });
    expect(session.chains()).toEqual(before);
    await session.reply(next);
    expect(session.chains().length).toBe(1);
  });

  it("are never mixed: a second reply at the same time is refused", async () => {
    const session = newAgent().startConversation({ seed: 1 });
    const first = session.reply([user("help")]);
    await expect(session.reply([user("help")])).rejects.toThrow("still being sampled");
    expect(await first).toMatchObject({ kind: "reply" });
  });

  it("hold every message: one whose role no template knows is refused", async () => {
    const session = newAgent().startConversation({ seed: 1 });
    const odd = { role: "moderator", content: "Be brief." } as unknown as Turn;
    await expect(session.reply([user("help"), odd])).rejects.toMatchObject({
      code: "INVALID_MESSAGE",
      message: expect.stringMatching(/message 2 has role "moderator".*Use one of system, developer, user/),
    });
    expect(session.chains()).toEqual([]);
  });

  it("keep a thought where it was sampled, although the template no longer shows it", async () => {
    const policy = talking("<think> hmm </think> yes", "no");
    const session = newAgent({ policy, reasoning: true }).startConversation({ seed: 1 });
    const first = await session.reply([user("yes")]);
    if (first.kind !== "reply") throw new Error("unexpected");
    await session.reply([user("yes"), first.turn, user("no")]);
    const [chain, ...others] = session.chains();
    expect(policy.tokenizer.decode(chain!.tokens)).toBe("yes <think> hmm </think> yes no no");
    expect(others).toEqual([]);
  });

  it("end with the context: full is said, not an error", async () => {
    const policy = createTablePolicy({ contextLength: 24, spread: 1 });
    const session = newAgent({ policy }).startConversation({ seed: 1 });
    expect(await session.reply([user("please ".repeat(20))])).toMatchObject({ kind: "context-full" });
    expect(session.chains()).toEqual([]);
  });
});

describe("MultiTurnAgent", () => {
  it("repeats itself with a seed and varies without", async () => {
    const say = (agent: MultiTurnAgent, context?: AgentContext) =>
      agent.generateResponse([user("order late")], context);
    expect(await say(newAgent())).toBe(await say(newAgent()));
    expect(await say(newAgent(), { seed: 9 })).toBe(await say(newAgent({ seed: 2 }), { seed: 9 }));
    const free = newAgent({ seed: undefined });
    const replies = new Set(await Promise.all(Array.from({ length: 8 }, () => say(free))));
    expect(replies.size).toBeGreaterThan(1);
  });

  it("puts the system prompt, the scenario's context and hooks' changes into the prompt", async () => {
    const policy = talking("alpha beta context polite extra hello");
    class Hooked extends MultiTurnAgent {
      protected override beforeGeneration(messages: readonly Turn[]): Message[] {
        return messages.map((message) => ({ ...message, content: `${message.content} extra` }));
      }
    }
    const agent = new Hooked({ policy, systemPrompt: "polite" });
    await agent.startConversation({ scenario: { id: "s", context: "context" } }).reply([user("hello")]);
    expect(policy.prompts[0]).toBe("<system> polite context <end> <user> hello extra <end> <assistant>");
    await agent.generateResponse([{ role: "system", content: "alpha" }, user("hello")]);
    expect(policy.prompts[1]).toContain("<system> alpha extra <end>");
  });

  it("answers conversations as OpenAI writes them", async () => {
    const policy = talking("hello alpha beta gamma");
    const call = { id: "1", type: "function" as const, function: { name: "f", arguments: "{}" } };
    await newAgent({ policy }).generateResponse([
      { role: "developer", content: [{ type: "text", text: "alpha" }] },
      user("hello"),
      { role: "assistant", content: null, tool_calls: [call], refusal: null },
      { role: "tool", content: "beta", tool_call_id: "1" },
      { role: "assistant", content: null, refusal: "gamma" },
      user("hello"),
    ]);
    expect(policy.prompts[0]).toBe(
      "<system> alpha <end> <user> hello <end> <assistant> <end> <tool> beta <end> <assistant> gamma <end> <user> hello <end> <assistant>",
    );
  });

  it("learns one reply of a turn that is asked twice, also after a hook that failed", async () => {
    const policy = createTablePolicy();
    let fail = false;
    class Failing extends MultiTurnAgent {
      protected override afterGeneration(reply: Turn): Turn {
        if (fail) throw new Error("hook");
        return reply;
      }
    }
    const session = new Failing({ policy, sampling: { maxTokens: 6 } }).startConversation();
    const first = await session.reply([user("help")]);
    if (first.kind !== "reply") throw new Error("no room");
    const turns = [user("help"), first.turn, user("order")];
    fail = true;
    await expect(session.reply(turns)).rejects.toThrow("hook");
    fail = false;
    await session.reply(turns, { seed: 1 });
    const again = await session.reply(turns, { seed: 2 });
    const [chain, ...others] = session.chains();
    expect(others).toEqual([]);
    const learnt = [...chain!.tokens].filter((_, i) => chain!.turn[i] === 3 && chain!.learn[i] === 1);
    expect(policy.tokenizer.decode(learnt)).toBe(again.kind === "reply" ? again.turn.content : "");
    expect(chain!.learn.filter((bit, i) => bit === 1 && chain!.logprobs[i] === 0)).toHaveLength(0);
  });

  it("keeps reasoning apart from the answer, also when streaming", async () => {
    const agent = newAgent({ policy: talking("<think> hmm well </think> yes sir"), reasoning: true });
    expect((await agent.respond([user("yes")])).turn).toEqual({
      role: "assistant",
      reasoning: "hmm well",
      content: "yes sir",
      sampled: { text: "<think> hmm well </think> yes sir <end>", finishReason: "stop" },
    });
    const pieces: string[] = [];
    for await (const piece of agent.stream([user("yes")])) pieces.push(piece);
    expect(pieces).toEqual(["yes ", "sir"]);
  });

  it("streams what it samples, passes failures on, and stops sampling when the reader leaves", async () => {
    const agent = newAgent({ policy: talking("one two three four") });
    const pieces: string[] = [];
    for await (const piece of agent.stream([user("one")])) pieces.push(piece);
    expect(pieces).toEqual(["one ", "two ", "three ", "four"]);
    for await (const piece of agent.stream([user("one")])) {
      expect(piece).toBe("one ");
      break;
    }
    await expect(agent.stream([]).next()).rejects.toMatchObject({ code: "INVALID_MESSAGE" });
    await expect(agent.stream([user("one")], { signal: AbortSignal.abort() }).next()).rejects.toMatchObject({
      code: "ABORTED",
    });
  });

  it("streams the changed reply of a subclass in one piece", async () => {
    class Signed extends MultiTurnAgent {
      protected override afterGeneration(reply: Turn): Turn {
        return { ...reply, content: `${reply.content} -- Ann` };
      }
    }
    const pieces: string[] = [];
    for await (const piece of new Signed({ policy: talking("one two") }).stream([user("one")])) pieces.push(piece);
    expect(pieces).toEqual(["one two -- Ann"]);
  });

  it.each([
    ["truncate", "<user> three <end> <assistant>"],
    ["sliding-window", "<user> three <end> <assistant>"],
  ] as const)("with %s drops the oldest messages and answers", async (strategy, tail) => {
    const policy = talking("one two three");
    const agent = newAgent({ policy, contextWindow: { strategy, turns: 1 } });
    const history = Array.from(
      { length: 30 },
      (_, i): Message => ({ role: i % 2 ? "assistant" : "user", content: "one two" }),
    );
    await agent.generateResponse([...history, user("three")]);
    expect(policy.prompts[0]!.endsWith(tail)).toBe(true);
    expect(policy.prompts[0]!.split(" ").length).toBeLessThanOrEqual(60 - 12);
    expect(policy.prompts[0]).toMatch(/^<user>/);
  });

  it("with summary lets the model sum up what no longer fits", async () => {
    const policy = talking("summary", "fine");
    const agent = newAgent({ policy, contextWindow: { strategy: "summary", summaryTokens: 8 } });
    const history = Array.from(
      { length: 20 },
      (_, i): Message => ({ role: i % 2 ? "assistant" : "user", content: "fine" }),
    );
    const reply = await agent.generateResponse([...history, user("fine fine fine fine fine fine fine fine")]);
    expect(reply).toBe("fine");
    expect(policy.prompts).toHaveLength(2);
    expect(policy.prompts[1]).toMatch(/^<system> .*summary <end> <user>/);
  });

  it("says when a conversation is too long and what to do about it", async () => {
    const long = [user("a ".repeat(40)), { role: "assistant" as const, content: "a" }, user("a ".repeat(40))];
    await expect(newAgent({ policy: talking("a") }).generateResponse(long)).rejects.toMatchObject({
      code: "CONTEXT_OVERFLOW",
      hint: expect.stringContaining("contextWindow"),
    });
  });

  it.each([undefined, "truncate", "summary"] as const)(
    "says when the last message alone is too long, which no strategy mends (%s)",
    async (contextWindow) => {
      const agent = newAgent({ policy: talking("a"), contextWindow, systemPrompt: "be brief" });
      const history = [user("a"), { role: "assistant" as const, content: "a" }, user("a ".repeat(80))];
      await expect(agent.generateResponse(history)).rejects.toMatchObject({
        code: "CONTEXT_OVERFLOW",
        message: expect.stringMatching(
          /The last message alone is too long for .*: .* it takes 8\d tokens, and there is room for \d+/,
        ),
        hint: "Shorten it.",
      });
    },
  );

  it("remembers across conversations, sums up with its own model, and does not repeat the current conversation", async () => {
    const policy = talking("hi Ann", "hello", "bye");
    const memory = new ConversationMemory({ summarizeAbove: 2, maxTurns: 4 });
    const agent = newAgent({ policy, memory });
    const turn = await agent.processTurn([], "hello", { conversationId: "a" });
    expect(turn.content).toBe("hi Ann");
    await agent.processTurn([user("hello"), turn], "bye", { conversationId: "a" });
    expect(policy.prompts[1]).not.toContain("system");
    expect(memory.summary).toBe("bye");
    await agent.processTurn([], "hello", { conversationId: "b" });
    expect(policy.prompts[3]).toMatch(/^<system> .* bye .*<user> hello <end> <assistant>$/);
  });

  it("names misspelt options with the nearest valid one", () => {
    expect(() => new MultiTurnAgent({ systemPromt: "x" } as AgentOptions)).toThrow('Did you mean "systemPrompt"?');
    expect(() => new MultiTurnAgent({ sampling: { temprature: 1 } } as AgentOptions)).toThrow(
      'Did you mean "temperature"?',
    );
    expect(() => new MultiTurnAgent({ sampling: { topP: 2 } })).toThrow("agent.sampling.topP");
    expect(() => new MultiTurnAgent({ contextWindow: "sliding" as "truncate" })).toThrow("agent.contextWindow");
  });

  it("refuses what it does not know of a reply's context, by name", async () => {
    const agent = newAgent();
    const context = { sed: 3 } as AgentContext;
    const refused = 'Unknown option "sed" in the context of a reply. Did you mean "seed"?';
    await expect(agent.respond([user("order")], context)).rejects.toThrow(refused);
    await expect(agent.generateResponse([user("order")], context)).rejects.toThrow(refused);
    await expect(agent.processTurn([], "order", context)).rejects.toThrow(refused);
    await expect(agent.stream([user("order")], context).next()).rejects.toThrow(refused);
    await expect(agent.stream([user("order")], { onTurn: 1 as never }).next()).rejects.toThrow("reply.onTurn");
  });

  it("tells hooks what the caller gave for them, and the scenario that is played", async () => {
    const told: HookContext[] = [];
    class Curious extends MultiTurnAgent {
      protected override beforeGeneration(messages: readonly Turn[], context: HookContext): Message[] {
        told.push(context);
        return [...messages];
      }
    }
    const agent = new Curious({ policy: createTablePolicy(), sampling });
    await agent.respond([user("order")], { data: { tier: "gold" } });
    await agent.startConversation({ scenario: { id: "s" } }).reply([user("order")]);
    expect(told).toEqual([{ data: { tier: "gold" } }, { scenario: { id: "s" } }]);
  });

  it("must be initialised, needs something to answer, and is silent after close", async () => {
    expect(() => new MultiTurnAgent().policy).toThrow("initialize()");
    await expect(newAgent().generateResponse([])).rejects.toMatchObject({ code: "INVALID_MESSAGE" });
    await expect(newAgent().generateResponse([{ role: "assistant", content: "x" }])).rejects.toThrow(
      "no message to answer",
    );
    const agent = newAgent();
    await agent.close();
    await expect(agent.generateResponse([user("x")])).rejects.toMatchObject({ code: "POLICY_CLOSED" });
  });
});
