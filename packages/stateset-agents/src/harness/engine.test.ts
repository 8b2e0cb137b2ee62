/** What only the real engine can show, on the starter model. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import type { Played } from "../rollout/play.ts";
import { ask, askStream, type Given, post } from "../test-support/plain-client.ts";
import { train } from "../training/train.ts";
import { defineHarness, type HarnessRun } from "./harness.ts";
import { openHarness } from "./play-with-harness.ts";

const user = (content: string): Given => ({ role: "user", content });
const weather = {
  type: "function",
  function: { name: "weather", parameters: { type: "object", properties: { city: { enum: ["Ghent", "Lille"] } } } },
};

let agent: MultiTurnAgent;
/** The same, whose replies go on for longer than any test listens. */
let talker: MultiTurnAgent;
beforeAll(async () => {
  agent = new MultiTurnAgent({ sampling: { temperature: 1, maxTokens: 12 } });
  await agent.initialize();
  const logitBias = Object.fromEntries(agent.policy.model.endTokens.map((token) => [token, -100]));
  talker = new MultiTurnAgent({ policy: agent.policy, sampling: { temperature: 1, logitBias } });
});
afterAll(() => agent.close());

async function play(run: (access: HarnessRun) => Promise<void>): Promise<Played> {
  const scenario = { id: "a" };
  const harness = defineHarness({ scenarios: [scenario], run });
  const open = await openHarness({ agent: talker, harness, settings: { maxTurns: 8 }, scored: true });
  const sampling = { maxTokens: 400 };
  return open.play({ id: "g-m0", scenario, seed: 2, member: 0, sampling, learn: true }, undefined).finally(open.close);
}

/** Reads the first words of a stream that would go on for long; before them comes who says them. */
async function beginStream(access: HarnessRun, signal?: AbortSignal): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  const asked = { model: access.model, messages: [user("Tell me a long story.")], stream: true, stop: ["\u0000"] };
  const response = await post({ ...access, signal }, "/chat/completions", asked);
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  for (let told = ""; !/"content":"[^"]/.test(told); ) {
    const { done, value } = await reader.read();
    if (done) throw new Error(`It ended before anything was said: ${told}`);
    told += decoder.decode(value, { stream: true });
  }
  return reader;
}

describe("a harness on the engine", { timeout: 120_000 }, () => {
  it("has a first ratio of exactly 1, with streams, tools, schemas and branches", async () => {
    const harness = defineHarness({
      scenarios: ["Where is my order?", "I want a refund."].map((content) => ({ id: content, content })),
      async run(access) {
        const opening = user(access.scenario.content);
        const first = await askStream(access, [opening]);
        const on = [opening, first, user("And then?")];
        await Promise.all([ask(access, on), askStream(access, [opening, first, user("Why?")])]);
        const tools = [weather];
        const called = await ask(access, [user("Is it cold?")], { tools, tool_choice: "required", max_tokens: 40 });
        const result: Given = {
          role: "tool",
          content: "cold",
          tool_call_id: called.tool_calls?.[0]?.id ?? "call00001",
        };
        if (called.tool_calls) await ask(access, [user("Is it cold?"), called, result], { tools });
        const { content } = await ask(access, [opening], { response_format: { type: "json_object" } });
        return content.length;
      },
    });
    const small = { steps: 1, groupsPerStep: 2, groupSize: 2, learningRate: 1e-4, warmup: 0 } as const;
    const { run } = await train({ ...small, agent, harness, dir: false });
    expect(run.metrics[0]).toMatchObject({ firstRatioMax: 1, conversations: 4 });
    expect(run.metrics[0]!.gradNorm).toBeGreaterThan(0);
    expect(agent.policy.stats().reusedTokens).toBeGreaterThan(0);
  });

  it("gives a client less than the trainer's shortest reply, and what room there is, where that is less still", async () => {
    const wordy = new MultiTurnAgent({ policy: agent.policy, sampling: { maxTokens: 40, minTokens: 20 } });
    const lengths: number[] = [];
    const { contextLength } = agent.policy.model;
    const long = [user("word ".repeat(contextLength))];
    const harness = defineHarness({
      scenarios: [{ id: "a" }],
      async run(access) {
        await ask(access, [user("Hello")], { max_tokens: 3 });
        await ask(access, [user("Hello")]);
        // As long as leaves room for a few tokens only.
        const refused = await ask(access, long).catch((error: Error) => error.message);
        const [, takes] = /the messages and tools take (\d+)/.exec(String(refused))!;
        const words = contextLength - (Number(takes) - contextLength) - 8;
        await ask(access, [user("word ".repeat(words))]);
      },
      onCall: ({ tokens }) => lengths.push(tokens.length),
    });
    const open = await openHarness({ agent: wordy, harness, settings: { maxTurns: 8 }, scored: true });
    const request = { id: "g-m0", scenario: { id: "a" }, seed: 2, member: 0, sampling: {}, learn: true };
    const { failures } = await open.play(request, undefined).finally(open.close);
    expect(failures).toEqual([]);
    expect(lengths[0]).toBe(3);
    expect(lengths[1]).toBeGreaterThanOrEqual(20);
    expect(lengths[2]).toBeLessThan(20);
  });

  it("keeps a reply that its client broke off, and learns nothing of it", async () => {
    const { trajectory } = await play(async (access) => {
      const leaving = new AbortController();
      await beginStream(access, leaving.signal);
      leaving.abort();
      await ask(access, [user("Hello")], { max_tokens: 8 });
    });
    expect(trajectory.metadata.harness).toMatchObject({ calls: 1, broken: 1 });
    const [main, broken] = trajectory.chains;
    expect(main!.learn.some((one) => one === 1)).toBe(true);
    expect(broken!.turn.some((turn) => turn >= 0)).toBe(true);
    expect(broken!.learn.every((one) => one === 0)).toBe(true);
  });

  it("ends a stream that was forgotten before the run is over, so that the policy can step", async () => {
    let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
    const { trajectory } = await play(async (access) => {
      await ask(access, [user("Hello")], { max_tokens: 4 });
      reader = await beginStream(access);
    });
    expect(agent.policy.stats()).toMatchObject({ running: 0, waiting: 0 });
    expect(trajectory.metadata.harness).toMatchObject({ calls: 1, broken: 1 });
    await reader!.cancel().catch(() => {});
  });
});
