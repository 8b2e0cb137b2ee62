import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { makeTinyModel } from "../../test/tiny-model.ts";
import { openPolicy } from "../policy/open-policy.ts";
import type { Policy, SampleRequest } from "../policy/policy.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { callsOnly } from "../test-support/walk-automaton.ts";
import { type CallFormatName, callFormatNames } from "../tool/format/call-format.ts";
import { callFormats } from "../tool/format/choose-format.ts";
import { tool } from "../tool/tool.ts";
import { readAgentFile } from "./agent-file.ts";
import { MultiTurnAgent } from "./multi-turn-agent.ts";

const limits = { maxLength: 8, maxItems: 2, maxDepth: 2 };

let policy: Policy;
beforeAll(async () => {
  const model = await makeTinyModel("llama", { max_position_embeddings: 4096 }, { scale: 0.4 });
  policy = await openPolicy({ model, threads: 1 });
});
afterAll(() => policy.close());

function bookings() {
  const made: unknown[] = [];
  const book = tool({
    name: "book",
    parameters: z.object({
      city: z.enum(["Köln", "東京"]),
      people: z.int().min(1).max(9),
      notes: z.array(z.string()).optional(),
    }),
    execute: (args) => void made.push(args),
  });
  return { book, made };
}

/** A model with random weights never opens a call; here it does at once. What requests were made is kept. */
function opening(format: CallFormatName, agentTools: MultiTurnAgent["options"]["tools"]) {
  const requests: SampleRequest[] = [];
  const held = callsOnly(callFormats[format], agentTools!, limits);
  const sample: Policy["sample"] = (asked, options) => {
    requests.push(...asked);
    return policy.sample(
      asked.map((one) => (one.constraint ? { ...one, constraint: held } : one)),
      options,
    );
  };
  // Its getters are the policy's own.
  const wrapped = new Proxy(policy, { get: (of, name) => (name === "sample" ? sample : Reflect.get(of, name)) });
  return { requests, wrapped };
}

const ask = { role: "user", content: "Book." } as const;

describe("an agent whose calls are constrained", () => {
  it.each(callFormatNames)("makes calls that run, in the format %s", async (callFormat) => {
    const { book, made } = bookings();
    const definitions = new MultiTurnAgent({ tools: [book] }).options.tools;
    const { wrapped, requests } = opening(callFormat, definitions);
    const agent = new MultiTurnAgent({
      ...{ policy: wrapped, tools: [book], callFormat, constrain: limits },
      ...{ maxToolSteps: 1, sampling: { maxTokens: 300 } },
    });
    for (let seed = 0; seed < 6; seed++) {
      const { turns } = await agent.respond([ask], { seed });
      const [first] = turns;
      expect(first!.tool_calls!.length).toBeGreaterThan(0);
      const failures = turns.filter(({ metadata }) => metadata?.toolFailure !== undefined);
      if (first!.sampled!.finishReason === "stop") expect(failures).toEqual([]);
      expect(first!.sampled!.constrained!.tokens).toBeGreaterThan(10);
      expect(first!.sampled!.constrained!.removed).toBeGreaterThan(1);
    }
    expect(made.length).toBeGreaterThan(3);
    expect(requests.every(({ constraint }) => constraint !== undefined)).toBe(true);
    expect(new Set(requests.map(({ constraint }) => constraint)).size).toBe(1);
  });

  it("asks for it where it was told to, and a conversation may say otherwise", async () => {
    const { book } = bookings();
    const definitions = new MultiTurnAgent({ tools: [book] }).options.tools;
    const asked = async (constrain: boolean | undefined, own?: boolean, tools = true) => {
      const { wrapped, requests } = opening("hermes", definitions);
      const agent = new MultiTurnAgent({
        ...{ policy: wrapped, constrain, callFormat: "hermes", maxToolSteps: 0, sampling: { maxTokens: 8 } },
        ...(tools && { tools: [book] }),
      });
      await agent.startConversation(own === undefined ? {} : { constrain: own }).reply([ask]);
      return requests.map(({ constraint }) => constraint !== undefined);
    };
    expect(await asked(undefined)).toEqual([false]);
    expect(await asked(false)).toEqual([false]);
    expect(await asked(true)).toEqual([true]);
    expect(await asked(true, false)).toEqual([false]);
    expect(await asked(undefined, true)).toEqual([true]);
    expect(await asked(true, undefined, false)).toEqual([false]);
  });

  it("records what was sampled as it was, and marks what was forced as nothing to learn", async () => {
    const { book } = bookings();
    const definitions = new MultiTurnAgent({ tools: [book] }).options.tools;
    const { wrapped } = opening("hermes", definitions);
    let forced: number[] = [];
    const watched = new Proxy(wrapped, {
      get(of, name) {
        if (name !== "sample") return Reflect.get(of, name);
        return async (...args: Parameters<Policy["sample"]>) => {
          const samples = await of.sample(...args);
          forced = [...samples[0]!.constrained!.forced];
          return samples;
        };
      },
    });
    const agent = new MultiTurnAgent({
      ...{ policy: watched, tools: [book], constrain: limits, callFormat: "hermes" },
      ...{ maxToolSteps: 0, sampling: { maxTokens: 200 } },
    });
    const session = agent.startConversation({ seed: 4 });
    await session.reply([ask]);
    const { learn, turn, samplerLogprobs, logprobs } = session.chains()[0]!;
    const own = [...turn.keys()].filter((i) => turn[i] === 1);
    expect(own.map((i) => learn[i])).toEqual(forced.map((one) => 1 - one));
    expect(forced).toContain(1);
    // It was drawn from what the mask left: forced tokens for certain.
    expect(forced.every((one, i) => !one || samplerLogprobs![own[i]!] === 0)).toBe(true);
    expect(own.some((i) => samplerLogprobs![i]! > logprobs[i]! + 0.1)).toBe(true);
  });

  it("is kept in agent.json with its limits", async () => {
    const { book } = bookings();
    const dir = temporaryFolder();
    const agent = new MultiTurnAgent({ policy, tools: [book], constrain: { maxLength: 9 } });
    await agent.save(dir);
    expect((await readAgentFile(dir)).constrain).toEqual({ maxLength: 9, maxItems: 8, maxDepth: 3 });
  });

  it("is refused where the engine cannot, and where a limit is none", async () => {
    const { book } = bookings();
    const table = new MultiTurnAgent({ policy: createTablePolicy(), tools: [book], constrain: true });
    expect(() => table.startConversation()).toThrow(/"constrain" does not work with/);
    const stub = new MultiTurnAgent({ stub: { replies: ["hi"] }, tools: [book], constrain: true });
    await stub.initialize();
    await expect(stub.respond([ask])).rejects.toThrow(/"constrain" does not work with/);
    expect(() => new MultiTurnAgent({ constrain: { maxLenght: 3 } as never })).toThrow(/maxLenght/);
    expect(() => new MultiTurnAgent({ constrain: "yes" as never })).toThrow(/true, false or { maxLength/);
  });

  it("says which tool has a schema that cannot be held", () => {
    const odd = tool({ name: "odd", parameters: { type: "object", properties: { n: { not: {} } } }, execute: () => 1 });
    const agent = new MultiTurnAgent({ policy, tools: [odd], constrain: true });
    expect(() => agent.startConversation()).toThrow(
      /cannot hold "not" \(parameters of the tool "odd", at #\/properties\/n\)/,
    );
  });
});
