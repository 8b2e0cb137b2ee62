/** Callers who keep the messages themselves: generateResponse, processTurn and stream go on from what was sampled. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Message, MessageInput } from "../conversation/message.ts";
import type { Turn } from "../conversation/trajectory.ts";
import { openPolicy } from "../policy/open-policy.ts";
import type { Policy, Sample } from "../policy/policy.ts";
import { scripted } from "../test-support/scripted-policy.ts";
import type { AgentOptions } from "./agent-options.ts";
import { MultiTurnAgent } from "./multi-turn-agent.ts";

const user = (content: string): Message => ({ role: "user", content });
const assistant = (content: string): Message => ({ role: "assistant", content });
const questions = ["Where is my order?", "And my refund?", "I want to cancel.", "Thanks."];

describe("stateless calls on the starter model", () => {
  let policy: Policy;
  beforeAll(async () => {
    policy = await openPolicy({ threads: 1 });
  });
  afterAll(() => policy.close());

  /** An agent whose prompts and samples are seen. Hot enough to sample what no tokenizer would make of the same text. */
  function watched(options: AgentOptions = {}) {
    const seen: { prompt: number[]; sample: Sample }[] = [];
    const watching: Policy = Object.assign(Object.create(policy), {
      sample: async (...args: Parameters<Policy["sample"]>) => {
        const samples = await policy.sample(...args);
        seen.push({ prompt: [...args[0][0]!.tokens], sample: samples[0]! });
        return samples;
      },
    });
    const sampling = { temperature: 3, maxTokens: 24 };
    return { agent: new MultiTurnAgent({ policy: watching, sampling, seed: 2, ...options }), seen };
  }

  type Ask = (agent: MultiTurnAgent, messages: readonly Message[], question: string) => Promise<Message>;
  const ways: [string, Ask][] = [
    ["generateResponse", async (agent, said, q) => assistant(await agent.generateResponse([...said, user(q)]))],
    ["processTurn", (agent, said, q) => agent.processTurn(said, q)],
    [
      "stream",
      async (agent, said, q) => {
        let text = "";
        for await (const piece of agent.stream([...said, user(q)])) text += piece;
        return assistant(text);
      },
    ],
  ];

  it.each(ways)(
    "%s keeps the sampled ids, and each prompt begins with all that was computed before",
    async (_, ask) => {
      const { agent, seen } = watched({ systemPrompt: "Be brief." });
      const said: Message[] = [];
      for (const question of questions) {
        const reply = await ask(agent, said, question);
        // As it would come back over a network.
        said.push(user(question), JSON.parse(JSON.stringify(reply)));
      }
      for (const [turn, { prompt }] of seen.entries()) {
        if (turn === 0) continue;
        const { prompt: before, sample } = seen[turn - 1]!;
        expect(prompt.slice(0, before.length + sample.tokens.length)).toEqual([...before, ...sample.tokens]);
      }
      // Without what was sampled, the same messages have other tokens.
      const asked: Message[] = [{ role: "system", content: "Be brief." }, ...said.slice(0, -1)];
      const anew = policy.tokenizer.extend(undefined, asked, { addGenerationPrompt: true }).tokens;
      expect(seen.at(-1)!.prompt).not.toEqual([...anew]);
      expect(policy.tokenizer.decode(seen.at(-1)!.prompt)).toBe(policy.tokenizer.decode(anew));
    },
  );

  it("tokenise anew what was changed, whoever changed it", async () => {
    const { agent, seen } = watched();
    const reply = await agent.processTurn([], questions[0]!);
    const changes: Turn[][] = [
      [user("Where is my parcel?"), reply],
      [user(questions[0]!), assistant(`${reply.content}!`)],
      [{ ...user(questions[0]!), name: "Bo" }, reply],
      [{ role: "system", content: "Be brief." }, user(questions[0]!), reply],
    ];
    for (const messages of changes) {
      await agent.processTurn(messages, questions[1]!);
      const asked = [...messages, user(questions[1]!)];
      const anew = policy.tokenizer.extend(undefined, asked, { addGenerationPrompt: true }).tokens;
      expect(seen.at(-1)!.prompt).toEqual([...anew]);
    }
  });

  it("answer one conversation twice, side by side, from the same tokens", async () => {
    const { agent, seen } = watched();
    const first = await agent.processTurn([], questions[0]!);
    const before = [user(questions[0]!), first];
    await Promise.all([1, 2].map((seed) => agent.processTurn(before, questions[1]!, { seed })));
    const [begun, ...both] = seen;
    expect(both[0]!.prompt).toEqual(both[1]!.prompt);
    expect(both[0]!.sample.tokens).not.toEqual(both[1]!.sample.tokens);
    const held = begun!.prompt.length + begun!.sample.tokens.length;
    expect(both[0]!.prompt.slice(0, held)).toEqual([...begun!.prompt, ...begun!.sample.tokens]);
  });

  describe("go on with a call whatever a client made of it", () => {
    // Written as no template would, so that only the sampled tokens begin so.
    const args = '{"id" : 7.0,  "note": {"b": "\u00f6", "a": []}}';
    const written = `One moment.\n<tool_call>{"name":"find",  "arguments":${args}}</tool_call>`;
    const parts = (text: string) => [{ type: "text", text }] as const;
    const tool = { type: "function" as const, function: { name: "find", parameters: { type: "object" } } };
    type Back = { question: MessageInput; reply: MessageInput; result: MessageInput };

    async function goesOn(change: (sent: Back) => Back, says = written): Promise<boolean> {
      const prompts: number[][] = [];
      const said = policy.tokenizer.encode(says, { control: true });
      const saying = scripted(policy, ({ tokens }) => {
        prompts.push([...tokens]);
        return { text: prompts.length === 1 ? said : "Done." };
      });
      const agent = new MultiTurnAgent({ policy: saying, tools: [tool], callFormat: "hermes", seed: 2 });
      const { turn } = await agent.respond([user(questions[0]!)]);
      const { sampled: _, ...reply } = JSON.parse(JSON.stringify(turn)) as Turn;
      const result: MessageInput = { role: "tool", content: "Found.", tool_call_id: reply.tool_calls![0]!.id };
      const sent = change({ question: user(questions[0]!), reply, result });
      await agent.respond([sent.question, sent.reply, sent.result]);
      const before = [...prompts[0]!, ...said];
      return prompts[1]!.slice(0, before.length).join() === before.join();
    }
    /** The call's arguments as a client writes them. */
    const rewritten =
      (text: string) =>
      (sent: Back): Back => {
        const call = { id: "call00001", type: "function" as const, function: { name: "find", arguments: text } };
        return { ...sent, reply: { ...sent.reply, tool_calls: [call] } };
      };
    const wordless = written.slice(written.indexOf("<"));

    it.each<[string, (sent: Back) => Back, string?]>([
      ["nothing", (sent) => sent],
      [
        "text parts",
        ({ question, reply, result }) => ({
          question: { ...question, content: parts(questions[0]!) },
          reply: { ...reply, content: parts("One moment.") },
          result: { ...result, content: parts("Found.") },
        }),
      ],
      [
        "null for what is not there",
        (sent) => ({ ...sent, reply: { ...sent.reply, refusal: null, name: null, reasoning_content: null } }),
      ],
      ["null content", (sent) => ({ ...sent, reply: { ...sent.reply, content: null } }), wordless],
      ["no parts", (sent) => ({ ...sent, reply: { ...sent.reply, content: [] } }), wordless],
      ["other spaces around", (sent) => ({ ...sent, reply: { ...sent.reply, content: "One moment.\n" } })],
      [
        "keys of the call in another order",
        (sent) => {
          const call = { function: { arguments: args, name: "find" }, type: "function" as const, id: "call00001" };
          return { ...sent, reply: { tool_calls: [call], content: sent.reply.content!, role: "assistant" } };
        },
      ],
      ["arguments without spaces", rewritten('{"id":7,"note":{"b":"ö","a":[]}}')],
      ["arguments as Python writes them", rewritten('{"id": 7.0, "note": {"b": "\\u00f6", "a": []}}')],
      ["keys of the arguments in another order", rewritten('{"note":{"a":[],"b":"ö"},"id":7}')],
    ])("%s", async (_, change, says) => {
      expect(await goesOn(change, says)).toBe(true);
    });

    it("but not with another call", async () => {
      expect(await goesOn(rewritten('{"id":8,"note":{"b":"ö","a":[]}}'))).toBe(false);
    });
  });
});
