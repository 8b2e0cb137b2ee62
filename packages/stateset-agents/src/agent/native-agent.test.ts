import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildTokenTree } from "../conversation/token-tree.ts";
import type { Turn } from "../conversation/trajectory.ts";
import { customerService } from "../environment/preset/index.ts";
import { loadAgentFromCheckpoint } from "../run/load-agent.ts";
import { MultiTurnAgent } from "./multi-turn-agent.ts";
import type { ConversationSession } from "./session.ts";

const options = {
  systemPrompt: "You are a helpful customer support agent.",
  sampling: { temperature: 0.8, maxTokens: 32 },
  seed: 5,
  threads: 1,
};

describe("an agent on the starter model", () => {
  const agent = new MultiTurnAgent(options);
  const environment = customerService();
  const dir = mkdtempSync(join(tmpdir(), "native-agent-"));
  beforeAll(() => agent.initialize());
  afterAll(async () => {
    await agent.close();
    rmSync(dir, { recursive: true });
  });

  async function converse(seed: number): Promise<ConversationSession> {
    const session = agent.startConversation({ scenario: environment.scenarios[0]!, seed });
    let state = await environment.reset(environment.scenarios[0], { seed });
    while (!state.done) {
      const reply = await session.reply(state.turns);
      if (reply.kind !== "reply") throw new Error("unexpected");
      state = (await environment.step(state, reply.turn)).state;
    }
    return session;
  }

  it("keeps every conversation in one chain, and scores a whole group to the bits it was sampled with", async () => {
    const sessions = await Promise.all([1, 2, 3].map(converse));
    const chains = sessions.map((session) => {
      expect(session.chains()).toHaveLength(1);
      return session.chains()[0]!;
    });
    const { tree, positions } = buildTokenTree(chains);
    expect(tree.tokens.length).toBeLessThan(chains.reduce((sum, chain) => sum + chain.tokens.length, 0));
    const pass = await agent.policy.forward(tree, { temperature: 0.8, grad: false });
    for (const [c, chain] of chains.entries()) {
      expect(chain.learn.includes(1)).toBe(true);
      const scored = Float32Array.from(chain.tokens, (_, i) =>
        chain.learn[i] ? pass.logprobs[positions[c]![i]!]! : 0,
      );
      expect(scored).toEqual(chain.logprobs);
    }
  });

  it("begins a new chain after a reply that a stop text ended, whose tokens say more than the reply", async () => {
    const stopping = new MultiTurnAgent({ ...options, policy: agent.policy, sampling: { maxTokens: 32, stop: [" "] } });
    const session = stopping.startConversation({ seed: 3 });
    const turns: Turn[] = [{ role: "user", content: "Where is my order?" }];
    for (const next of ["And my refund?", "Thanks."]) {
      const reply = await session.reply(turns);
      if (reply.kind !== "reply") throw new Error("unexpected");
      expect(reply.turn.sampled!.text).toBe(`${reply.turn.content} ${reply.turn.sampled!.text.split(" ")[1]}`);
      turns.push(reply.turn, { role: "user", content: next });
    }
    const [first, second, ...others] = session.chains();
    expect([first!.started, second!.started, others]).toEqual(["first-prompt", "stop-text", []]);
    const text = agent.policy.tokenizer.decode(second!.tokens, { skipSpecial: false });
    expect(text).toContain(`assistant\n${turns[1]!.content}<|im_end|>\n`);
  });

  it("streams the same text it would return", async () => {
    const messages = [{ role: "user" as const, content: "I want to cancel my subscription." }];
    let streamed = "";
    for await (const piece of agent.stream(messages)) streamed += piece;
    expect(streamed).toBe(await agent.generateResponse(messages));
    expect(streamed).not.toBe("");
  });

  it("is not made of a reward model", async () => {
    for (const name of ["config.json", "reward-model.json"]) {
      mkdirSync(join(dir, "judge"), { recursive: true });
      writeFileSync(join(dir, "judge", name), "{}");
    }
    const loading = loadAgentFromCheckpoint(join(dir, "judge"));
    await expect(loading).rejects.toMatchObject({ code: "MODEL_UNSUPPORTED", message: /holds a reward model/ });
  });

  it("comes back from a folder as it was", async () => {
    const messages = [{ role: "user" as const, content: "My order is late." }];
    await agent.save(join(dir, "full"));
    const again = await loadAgentFromCheckpoint(join(dir, "full"), { threads: 1 });
    expect(again.options).toMatchObject({ systemPrompt: options.systemPrompt, sampling: options.sampling, seed: 5 });
    expect(await again.generateResponse(messages)).toBe(await agent.generateResponse(messages));
    await again.close();
  });

  it("comes back from an adapter, also when the folder is a run's", async () => {
    const adapted = new MultiTurnAgent({ ...options, lora: { rank: 2 } });
    await adapted.initialize();
    await adapted.save(join(dir, "run", "final"));
    expect(existsSync(join(dir, "run", "final", "adapter_config.json"))).toBe(true);
    const again = await loadAgentFromCheckpoint(join(dir, "run"), { threads: 1 });
    expect(again.policy.model.lora).toMatchObject({ rank: 2 });
    const messages = [{ role: "user" as const, content: "My order is late." }];
    expect(await again.generateResponse(messages)).toBe(await adapted.generateResponse(messages));
    await Promise.all([adapted.close(), again.close()]);
  });
});
