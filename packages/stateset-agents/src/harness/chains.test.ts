/** How the calls of an agent become the chains of one trajectory. */
import { afterEach, describe, expect, it } from "vitest";
import type { TokenChain } from "../conversation/trajectory.ts";
import type { Played } from "../rollout/play.ts";
import { ask, askStream, type Given } from "../test-support/plain-client.ts";
import { tableAgent } from "../test-support/table-training.ts";
import type { CapturedCall } from "./captured-call.ts";
import { defineHarness, type HarnessRun } from "./harness.ts";
import { type OpenHarness, openHarness } from "./play-with-harness.ts";

let open: OpenHarness | undefined;
afterEach(() => open?.close());

const user = (content: string): Given => ({ role: "user", content });

async function play(
  run: (access: HarnessRun) => Promise<unknown>,
  { seed = 3, maxTurns = 16, onCall }: { seed?: number; maxTurns?: number; onCall?: (call: CapturedCall) => void } = {},
): Promise<Played> {
  const { agent } = tableAgent();
  await agent.initialize();
  const scenario = { id: "a" };
  const rewarded = async (access: HarnessRun) => {
    await run(access);
    return 1;
  };
  const harness = defineHarness({ scenarios: [scenario], run: rewarded, onCall });
  open = await openHarness({ agent, harness, settings: { maxTurns }, scored: false });
  const request = { id: "g-m0", scenario, seed, member: 0, sampling: {}, learn: true };
  return open.play(request, undefined).finally(() => open!.close());
}

const sampledIn = ({ turn }: TokenChain) => turn.filter((one) => one >= 0).length;
const learntIn = ({ learn }: TokenChain) => learn.filter((one) => one === 1).length;

describe("calls of one agent", () => {
  it("that go on from each other are one chain, streamed or not", async () => {
    const calls: CapturedCall[] = [];
    const { trajectory } = await play(
      async (access) => {
        const first = await ask(access, [user("refund order")]);
        const second = [user("refund order"), first, user("ok really")];
        const reply = await askStream(access, second);
        await ask(access, [...second, reply, user("thanks well")]);
      },
      { onCall: (call) => calls.push(call) },
    );
    expect(trajectory.chains).toHaveLength(1);
    expect(trajectory.turns.map(({ role }) => role)).toEqual([
      "user",
      "assistant",
      "user",
      "assistant",
      "user",
      "assistant",
    ]);
    expect(calls.map(({ chain }) => chain)).toEqual(["started", "continued", "continued"]);
    // What was recorded call by call is what stands in the chain, at its place.
    const [chain] = trajectory.chains;
    for (const [i, { promptTokens, tokens, logprobs, version }] of calls.entries()) {
      const at = promptTokens.length;
      expect([...chain!.tokens.subarray(0, at + tokens.length)]).toEqual([...promptTokens, ...tokens]);
      expect([...chain!.logprobs.subarray(at, at + tokens.length)]).toEqual([...logprobs]);
      expect(chain!.versions![2 * i + 1]).toBe(version);
      expect(chain!.turn[at]).toBe(2 * i + 1);
    }
    expect(learntIn(chain!)).toBe(calls.reduce((sum, { tokens }) => sum + tokens.length, 0));
  });

  it("with a history of its own making begin another chain of the same trajectory", async () => {
    const { trajectory } = await play(async (access) => {
      const first = await ask(access, [user("refund order")]);
      const so = [user("refund order"), first, user("ok really")];
      const second = await ask(access, so);
      const third = await ask(access, [...so, second, user("thanks well")]);
      await ask(access, [user("help order"), third, user("thanks well")]);
    });
    expect(trajectory.chains.map(({ started }) => started)).toEqual(["first-prompt", "first-prompt"]);
    // The reply that stands in the rewritten history is no reply there: it was sampled elsewhere, and learns there.
    expect(trajectory.chains.map(sampledIn).every((count) => count > 0)).toBe(true);
    expect(trajectory.turns.map(({ content }) => content)[0]).toBe("refund order");
  });

  it("of a sub-agent are a chain beside, with turns that are none of the conversation's", async () => {
    const { trajectory } = await play(async (access) => {
      const first = await ask(access, [user("refund order")]);
      await ask(access, [{ role: "system", content: "card broken" }, user("order late")]);
      await ask(access, [user("refund order"), first, user("ok really")]);
    });
    const [main, beside] = trajectory.chains;
    expect(trajectory.chains).toHaveLength(2);
    expect([...new Set(main!.turn)].filter((turn) => turn >= 0)).toEqual([1, 3]);
    expect([...new Set(beside!.turn)].filter((turn) => turn >= 0)).toEqual([trajectory.turns.length]);
    expect(learntIn(beside!)).toBe(sampledIn(beside!));
  });

  it("that branch share their beginning, and its tokens learn once", async () => {
    const calls: CapturedCall[] = [];
    const { trajectory } = await play(
      async (access) => {
        const first = await ask(access, [user("refund order")]);
        const on = (words: string) => ask(access, [user("refund order"), first, user(words)]);
        await Promise.all([on("ok really"), on("thanks well"), on("order late")]);
      },
      { onCall: (call) => calls.push(call) },
    );
    expect(trajectory.chains).toHaveLength(3);
    const all = calls.reduce((sum, { tokens }) => sum + tokens.length, 0);
    expect(trajectory.chains.reduce((sum, chain) => sum + sampledIn(chain), 0)).toBe(all);
    expect(trajectory.chains.reduce((sum, chain) => sum + learntIn(chain), 0)).toBe(all);
    const beginning = calls[0]!.promptTokens.length + calls[0]!.tokens.length;
    for (const { tokens } of trajectory.chains) {
      expect([...tokens.subarray(0, beginning)]).toEqual([...trajectory.chains[0]!.tokens.subarray(0, beginning)]);
    }
    expect(
      trajectory.chains.slice(1).every(({ learn }) => learn.subarray(0, beginning).every((one) => one === 0)),
    ).toBe(true);
  });

  it("whose examples were written by others learn nothing of those", async () => {
    const shown: Given[] = [user("order late"), { role: "assistant", content: "sorry please" }, user("refund order")];
    const { trajectory } = await play((access) => ask(access, shown));
    expect(trajectory.turns.map(({ given }) => given === true)).toEqual([false, true, false, false]);
    expect(trajectory.chains).toHaveLength(1);
  });
});

describe("a call that was asked again", () => {
  it("counts once: the one that was gone on with", async () => {
    const { trajectory } = await play(async (access) => {
      const first = await ask(access, [user("refund order")]);
      await ask(access, [user("refund order")]);
      await ask(access, [user("refund order"), first, user("ok really")]);
    });
    expect(trajectory.metadata.harness).toMatchObject({ calls: 3, repeated: 1 });
    expect(trajectory.chains).toHaveLength(2);
    expect(learntIn(trajectory.chains[0]!)).toBeGreaterThan(0);
    expect(sampledIn(trajectory.chains[1]!)).toBeGreaterThan(0);
    expect(learntIn(trajectory.chains[1]!)).toBe(0);
  });

  it("counts once where nobody went on: the last", async () => {
    const calls: CapturedCall[] = [];
    const { trajectory } = await play(
      async (access) => {
        for (let i = 0; i < 3; i++) await ask(access, [user("refund order")]);
      },
      { onCall: (call) => calls.push(call) },
    );
    expect(new Set(calls.map(({ seed }) => seed)).size).toBe(3);
    const learning = trajectory.chains.filter((chain) => learntIn(chain) > 0);
    expect(learning).toHaveLength(1);
    expect([...learning[0]!.tokens]).toEqual([...calls[2]!.promptTokens, ...calls[2]!.tokens]);
    expect(trajectory.turns.at(-1)).toBe(calls[2]!.reply);
  });
});

describe("what is drawn", () => {
  const openings = ["refund order", "card broken", "order late", "help order"];
  const inOrder = (order: readonly string[]) => (access: HarnessRun) =>
    Promise.all(order.map((words) => ask(access, [user(words)])));
  const chainsOf = async (order: readonly string[], seed?: number) => {
    const { trajectory } = await play(inOrder(order), seed === undefined ? {} : { seed });
    return trajectory.chains.map(({ tokens, logprobs, turn }) => [[...tokens], [...logprobs], [...turn]]);
  };

  it("follows from what is asked and how often, not from who comes first", async () => {
    const chains = await chainsOf(openings);
    expect(await chainsOf([...openings].reverse())).toEqual(chains);
    expect(await chainsOf(openings, 4)).not.toEqual(chains);
  });

  it("is drawn as training draws, and the request is told so", async () => {
    const calls: CapturedCall[] = [];
    const asked = {
      temperature: 0.2,
      top_p: 0.5,
      frequency_penalty: 1,
      logit_bias: { "7": 5 },
      seed: 1,
      max_tokens: 2,
      stop: ["x"],
    };
    const { notices } = await play((access) => ask(access, [user("refund order")], asked), {
      onCall: (call) => calls.push(call),
    });
    expect(calls[0]!.sampling).toMatchObject({ temperature: 1, topP: 1, maxTokens: 2, stop: ["x"] });
    expect(calls[0]!.sampling.logitBias).toBeUndefined();
    expect(notices).toHaveLength(1);
    expect(notices![0]).toMatch(/`frequency_penalty`, `logit_bias`, `seed`, `temperature`, `top_p`/);
    const plain = await play((access) =>
      ask(access, [user("refund order")], { temperature: 1, top_p: 1, max_tokens: 90 }),
    );
    expect(plain.notices).toEqual([]);
  });

  it("ends with the replies that training allows", async () => {
    const played = play(
      async (access) => {
        const messages: Given[] = [user("refund order")];
        for (let i = 0; i < 3; i++) messages.push(await ask(access, messages), user("ok really"));
      },
      { maxTurns: 2 },
    );
    const { trajectory, failures } = await played;
    expect(failures.map(({ message }) => message)).toEqual(Array(2).fill(expect.stringContaining("400 max_turns")));
    expect(trajectory).toMatchObject({ ended: "failed", failure: { during: "harness" } });
  });
});
