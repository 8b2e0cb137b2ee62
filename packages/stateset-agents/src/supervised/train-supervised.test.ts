import { describe, expect, it } from "vitest";
import type { Message } from "../conversation/message.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { encodeConversation } from "./example.ts";
import { evaluateSupervised, trainSupervised } from "./train-supervised.ts";

const chat = (...contents: string[]) => ({
  messages: contents.map((content, i): Message => ({ role: i % 2 ? "assistant" : "user", content })),
});
const chats = [
  chat("order late", "sorry please help"),
  chat("order late", "sorry please refund", "ok", "thanks"),
  chat("card broken", "sorry yes"),
  chat("card broken", "sorry yes please", "really", "yes thanks"),
  chat("help", "yes please"),
];

describe("trainSupervised", () => {
  it("learns the assistant's tokens and lowers the held-out loss", async () => {
    const policy = createTablePolicy();
    const before = await evaluateSupervised(policy, chats);
    const steps: number[] = [];
    const result = await trainSupervised({
      policy,
      examples: chats,
      heldOut: chats,
      epochs: 40,
      batchSize: 2,
      learningRate: 0.05,
      evaluateEvery: 60,
      dir: false,
      callbacks: { onStepEnd: ({ step }) => void steps.push(step) },
    });
    expect(result.steps).toBe(120);
    expect(steps).toHaveLength(120);
    expect(result.evaluations.map(({ step }) => step)).toEqual([0, 60, 120]);
    expect(result.evaluations[0]!.loss).toBeCloseTo(before.loss, 6);
    const after = result.evaluations.at(-1)!;
    expect(after.loss).toBeLessThan(before.loss / 2);
    expect(after.perplexity).toBeCloseTo(Math.exp(after.loss));
    expect(result.tokens).toBe(before.tokens);
  });

  it("puts no gradient on what the user says", async () => {
    const policy = createTablePolicy();
    const start = Float32Array.from(policy.parameters);
    await trainSupervised({ policy, dir: false, examples: [chat("order late", "sorry")], learningRate: 0.1 });
    const size = policy.tokenizer.vocabSize;
    const moved = (token: string) => {
      const row = policy.idOf(token) * size;
      return policy.parameters.subarray(row, row + size).some((value, i) => value !== start[row + i]);
    };
    // Rows are contexts: the reply is predicted after <assistant> and after "sorry", never after the user's words.
    expect([moved("<assistant>"), moved("sorry"), moved("order"), moved("<user>")]).toEqual([true, true, false, false]);
  });

  it("gives the same weights whatever the token budget", async () => {
    const weights: number[][] = [];
    for (const tokenBudget of [16, 24, 8192]) {
      const policy = createTablePolicy({ seed: 3 });
      await trainSupervised({ policy, dir: false, examples: chats, epochs: 3, learningRate: 0.05, tokenBudget });
      weights.push(Array.from(policy.parameters));
    }
    for (const other of weights.slice(1)) {
      for (const [i, weight] of other.entries()) expect(weight).toBeCloseTo(weights[0]![i]!, 5);
    }
  });

  it("repeats itself with the same seed", async () => {
    const run = async (seed: number) => {
      const policy = createTablePolicy();
      await trainSupervised({ policy, dir: false, examples: chats, batchSize: 2, learningRate: 0.05, seed });
      return Array.from(policy.parameters);
    };
    expect(await run(1)).toEqual(await run(1));
    expect(await run(1)).not.toEqual(await run(2));
  });

  it("says what was cut and what was left out, and refuses data without assistant tokens", async () => {
    const policy = createTablePolicy({ contextLength: 8 });
    const result = await trainSupervised({
      policy,
      dir: false,
      examples: [...chats, { messages: [{ role: "user", content: "ok" }] }, { messages: [] }],
    });
    expect(result).toMatchObject({ truncated: 3, dropped: 2, examples: 5 });
    const bare = [{ messages: [{ role: "user", content: "ok" } as const] }];
    await expect(trainSupervised({ policy, dir: false, examples: bare })).rejects.toMatchObject({
      code: "INVALID_DATA",
    });
  });

  it("names the example that is no conversation", async () => {
    for (const [example, message] of [
      ["text", /examples\[1\] has no "messages"/],
      [{ prompt: "a", completion: "b" }, /examples\[1\] has no "messages"/],
      [{ messages: "x" }, /examples\[1\]: expected a list of messages/],
      [{ messages: [{ role: "assistent", content: "x" }] }, /examples\[1\]: message 1 has role "assistent"/],
    ] as const) {
      const examples = [chats[0]!, example as never];
      const training = trainSupervised({ policy: createTablePolicy(), dir: false, examples });
      await expect(training).rejects.toMatchObject({ code: "INVALID_DATA", message: expect.stringMatching(message) });
    }
  });

  it("skips and counts updates that are not finite, and stops after three in a row", async () => {
    const policy = createTablePolicy();
    let forwards = 0;
    const broken = (isBad: (n: number) => boolean) => ({
      ...policy,
      model: policy.model,
      forward: async (...args: Parameters<typeof policy.forward>) => {
        const pass = await policy.forward(...args);
        if (isBad(forwards++)) pass.logprobs.fill(Number.NaN);
        return pass;
      },
    });
    const options = { examples: chats, batchSize: 1, dir: false } as const;
    const result = await trainSupervised({ ...options, policy: broken((n) => n === 1) });
    expect(result.skipped).toEqual([2]);
    expect(policy.parameters.every(Number.isFinite)).toBe(true);
    await expect(trainSupervised({ ...options, policy: broken(() => true) })).rejects.toMatchObject({
      code: "NOT_FINITE",
      message: expect.stringMatching(/loss.*step 3/),
    });
  });

  it("stops on a signal and names unknown options", async () => {
    const policy = createTablePolicy();
    const { run } = await trainSupervised({ policy, dir: false, examples: chats, signal: AbortSignal.abort() });
    expect(run).toMatchObject({ status: "interrupted", steps: 0 });
    await expect(trainSupervised({ policy, dir: false, examples: chats, epoch: 2 } as never)).rejects.toThrow(/epochs/);
    await expect(trainSupervised({ examples: chats, dir: false } as never)).rejects.toThrow(/an agent or a policy/);
    await expect(trainSupervised({ policy, dir: false, examples: chats, trackers: [{}] } as never)).rejects.toThrow(
      /trackers.*holds no tracker at \[0\]: it has no name/,
    );
  });
});

it("marks the assistant's words and its end token", () => {
  const { tokenizer } = createTablePolicy();
  const { tokens, learn, message } = encodeConversation(tokenizer, chat("order late", "sorry please"));
  const learnt = Array.from(tokens).filter((_, i) => learn[i] === 1);
  expect(tokenizer.decode(learnt, { skipSpecial: false })).toBe("sorry please <end>");
  expect(new Set(message)).toEqual(new Set([0, 1]));
});

it("leaves out what weighs 0, as the replies in the prompt of a prompt and a completion", () => {
  const { tokenizer } = createTablePolicy();
  const [first, second] = [chat("order late", "sorry", "ok", "thanks"), chat("order late", "sorry", "ok", "thanks")];
  second.messages[1]!.weight = 0;
  const learnt = ({ messages }: typeof first) => {
    const { tokens, learn } = encodeConversation(tokenizer, { messages });
    return { tokens: [...tokens], text: tokenizer.decode(tokens.filter((_, i) => learn[i] === 1)) };
  };
  expect(learnt(second).tokens).toEqual(learnt(first).tokens);
  expect([learnt(first).text, learnt(second).text]).toEqual(["sorry thanks", "thanks"]);
});
