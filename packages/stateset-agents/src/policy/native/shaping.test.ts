import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeTinyModel } from "../../../test/tiny-model.ts";
import { createRandom } from "../../random.ts";
import {
  defaultSampling,
  type Policy,
  type Sample,
  type SampleRequest,
  type SampleToken,
  type Sampling,
  type TokenTree,
} from "../policy.ts";
import { openWeights } from "../weights/index.ts";
import { loadNativePolicy } from "./load.ts";

let policy: Policy;
let head: Float32Array;
beforeAll(async () => {
  const dir = await makeTinyModel("llama");
  policy = await loadNativePolicy({ dir });
  const weights = await openWeights(dir);
  // The embedding is the head, too.
  head = await weights.read("model.embed_tokens.weight");
  await weights.close();
});
afterAll(() => policy.close());

const prompt = Int32Array.of(1, 40, 77, 261, 378);
const one = async (sampling: Partial<Sampling>, more: Partial<SampleRequest> = {}) => {
  const request = { tokens: prompt, sampling: { ...defaultSampling, maxTokens: 24, ...sampling }, seed: 3, ...more };
  return (await policy.sample([request]))[0]!;
};

/** Scores of the sampled tokens of many requests, in one pass. */
async function scored(requests: readonly SampleRequest[], samples: readonly Sample[], temperature: number) {
  const sequences = requests.map(({ tokens }, i) => [...tokens, ...samples[i]!.tokens]);
  const starts = [0];
  for (const sequence of sequences) starts.push(starts.at(-1)! + sequence.length);
  const tree: TokenTree = {
    tokens: Int32Array.from(sequences.flat()),
    nodeStart: Int32Array.from(starts),
    nodeParent: new Int32Array(sequences.length).fill(-1),
    wanted: new Uint8Array(starts.at(-1)!).fill(1),
  };
  const { logprobs } = await policy.forward(tree, { grad: false, temperature });
  return requests.map(({ tokens }, i) => logprobs.slice(starts[i]! + tokens.length, starts[i + 1]!));
}

describe("what shapes a draw", () => {
  it("leaves the recorded log-probs those of forward(), to the bit, in 10,000 requests", async () => {
    const random = createRandom(11);
    const { next } = random;
    const pick = (count: number) => Math.floor(next() * count);
    const maybe = <T>(value: () => T) => (next() < 0.5 ? value() : undefined);
    const set = (entries: Record<string, unknown>) =>
      Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== undefined));
    const shaped = (seed: number, temperature: number): SampleRequest => ({
      tokens: Int32Array.from({ length: 2 + pick(6) }, () => pick(512)),
      seed,
      sampling: {
        ...defaultSampling,
        temperature,
        maxTokens: 8,
        stopTokens: Array.from({ length: 40 }, () => pick(512)),
        ...set({
          topK: maybe(() => 1 + pick(60)),
          topP: maybe(() => 0.3 + 0.7 * next()),
          minP: maybe(() => 0.2 * next()),
          repetitionPenalty: maybe(() => 0.8 + next()),
          presencePenalty: maybe(() => 4 * next() - 2),
          frequencyPenalty: maybe(() => 4 * next() - 2),
          logitBias: maybe(() => Object.fromEntries([1, 2, 3].map(() => [pick(512), 20 * next() - 10]))),
          minTokens: maybe(() => pick(8)),
        }),
      },
      ...set({ topLogprobs: maybe(() => pick(4)), samplerLogprobs: maybe(() => true) }),
    });
    let ended = 0;
    for (const temperature of [0, 0.7, 1, 1.3]) {
      for (let batch = 0; batch < 5; batch++) {
        const requests = Array.from({ length: 500 }, (_, i) => shaped(batch * 500 + i, temperature));
        const samples = await policy.sample(requests);
        const scores = await scored(requests, samples, temperature || 1);
        for (const [i, { tokens, logprobs, finishReason, samplerLogprobs, topLogprobs }] of samples.entries()) {
          const { sampling, samplerLogprobs: wanted, topLogprobs: top = 0 } = requests[i]!;
          expect(Buffer.compare(Buffer.from(logprobs.buffer), Buffer.from(scores[i]!.buffer))).toBe(0);
          const ends = [2, ...sampling.stopTokens];
          const early = tokens.slice(0, sampling.minTokens ?? 0);
          expect(early.some((token) => ends.includes(token))).toBe(false);
          expect(tokens.length).toBeGreaterThanOrEqual(sampling.minTokens ?? 0);
          if (finishReason === "stop") ended++;
          expect(samplerLogprobs?.length).toBe(wanted ? tokens.length : undefined);
          expect(topLogprobs?.map((entries) => entries.length)).toEqual(
            top > 0 ? Array(tokens.length).fill(top) : undefined,
          );
        }
      }
    }
    expect(ended).toBeGreaterThan(1000);
  });

  it("is what it is called", async () => {
    const free = await one({ temperature: 0 });
    const [first] = free.tokens;
    // Added logits choose for or against a token.
    expect([...(await one({ logitBias: { 77: 100 } })).tokens]).toEqual(Array(24).fill(77));
    expect([...(await one({ temperature: 0, logitBias: { [first!]: -100 } })).tokens]).not.toContain(first);
    const distinct = ({ tokens }: Sample) => new Set(tokens).size;
    const repeated = await one({ logitBias: { 40: 10, 77: 10 } });
    const varied = await one({ logitBias: { 40: 10, 77: 10 }, frequencyPenalty: 2 });
    expect(distinct(repeated)).toBeLessThan(distinct(varied));
    // A smallest length holds back every stop token.
    const stopTokens = Array.from({ length: 500 }, (_, i) => i);
    expect((await one({ stopTokens })).tokens.length).toBeLessThan(6);
    const held = await one({ stopTokens, minTokens: 10 });
    expect(held.tokens.length).toBeGreaterThanOrEqual(10);
    expect([...held.tokens.slice(0, 10)].every((token) => token >= 500)).toBe(true);
  });

  it.each([
    { presencePenalty: 0.5 },
    { frequencyPenalty: 0.3 },
    { presencePenalty: -1, frequencyPenalty: 0.4 },
    { repetitionPenalty: 3, logitBias: { 40: 3.2, 77: 3, 261: 3.1 } },
    { repetitionPenalty: 0.7, presencePenalty: 1, frequencyPenalty: 0.2, logitBias: { 9: 1.5, 40: -2 } },
  ])("penalises logits by its formula: %j", async (shape) => {
    const bias: Record<number, number> = { 9: 3, 10: 3.1, 300: 2.9, ...shape.logitBias };
    const sampling = { temperature: 0, ...shape, logitBias: bias };
    const { tokens } = await one(sampling);
    const { repetitionPenalty = 1, presencePenalty = 0, frequencyPenalty = 0 } = sampling as Partial<Sampling>;
    const wanted: number[] = [];
    while (wanted.length < tokens.length) {
      const logits = await nextLogits([...prompt, ...wanted]);
      for (const token of new Set([...prompt, ...wanted])) {
        logits[token] = logits[token]! < 0 ? logits[token]! * repetitionPenalty : logits[token]! / repetitionPenalty;
      }
      // The prompt counts for repetition alone.
      for (const token of new Set(wanted)) {
        const count = wanted.filter((other) => other === token).length;
        logits[token]! -= count * frequencyPenalty + presencePenalty;
      }
      for (const [token, added] of Object.entries(bias)) logits[Number(token)]! += added;
      wanted.push(logits.indexOf(Math.max(...logits)));
    }
    expect([...tokens]).toEqual(wanted);
    const free = await one({ temperature: 0, logitBias: bias });
    expect(wanted).not.toEqual([...free.tokens]);
  });

  it("can be read off the sampler's own log-probs", async () => {
    const plain = await one({}, { samplerLogprobs: true });
    expect(plain.samplerLogprobs).toEqual(plain.logprobs);
    const cut = await one({ topP: 0.5, topK: 40 }, { samplerLogprobs: true });
    cut.samplerLogprobs!.forEach((own, i) => {
      expect(own).toBeGreaterThanOrEqual(cut.logprobs[i]!);
    });
    expect([...(await one({ temperature: 0 }, { samplerLogprobs: true })).samplerLogprobs!]).toEqual(Array(24).fill(0));
    // Of two tokens that are left, with a bias of ln 3 on one: 3/4 and 1/4 of what they had.
    const others = Object.fromEntries(Array.from({ length: 512 }, (_, i) => [i, -100]));
    const two = await one(
      { logitBias: { ...others, 77: Math.log(3), 40: 0 } },
      { samplerLogprobs: true, topLogprobs: 0 },
    );
    const [recorded, own] = [two.logprobs[0]!, two.samplerLogprobs![0]!];
    const other = await nextLogprob(two.tokens[0] === 77 ? 40 : 77);
    const [a, b] =
      two.tokens[0] === 77 ? [3 * Math.exp(recorded), Math.exp(other)] : [Math.exp(recorded), 3 * Math.exp(other)];
    expect(own).toBeCloseTo(Math.log(a / (a + b)), 4);
  });

  it("is reported with every token as it is drawn", async () => {
    const heard: SampleToken[] = [];
    const [sample] = await policy.sample(
      [
        {
          tokens: prompt,
          sampling: { ...defaultSampling, topK: 5, maxTokens: 9 },
          seed: 1,
          topLogprobs: 3,
          samplerLogprobs: true,
        },
        { tokens: prompt, sampling: { ...defaultSampling, maxTokens: 9 }, seed: 2 },
      ],
      { onToken: (token) => heard.push(token) },
    );
    const own = heard.filter(({ request }) => request === 0);
    expect(own.map(({ topLogprobs }) => topLogprobs)).toEqual(sample!.topLogprobs);
    expect(Float32Array.from(own, ({ samplerLogprob }) => samplerLogprob!)).toEqual(sample!.samplerLogprobs);
    expect(heard.filter(({ request }) => request === 1).every((token) => !("topLogprobs" in token))).toBe(true);
    const [best] = sample!.topLogprobs![0]!;
    expect(best!.logprob).toBe(await nextLogprob(best!.token));
  });

  it.each([
    [{ presencePenalty: 3 }, /presencePenalty/],
    [{ frequencyPenalty: Number.NaN }, /frequencyPenalty/],
    [{ logitBias: { 3: 101 } }, /logitBias\.3/],
    [{ logitBias: { x: 1 } }, /logitBias/],
    [{ logitBias: { 512: 1 } }, /token 512 is not in the vocabulary/],
    [{ minTokens: -1 }, /minTokens/],
    [{ minTokens: 25 }, /minTokens 25 is more than maxTokens 24/],
    [{ stopTokens: Array.from({ length: 512 }, (_, i) => i), minTokens: 1 }, /nothing to choose/],
  ] as const)("is refused when it makes no sense: %j", async (sampling, message) => {
    await expect(one(sampling as Partial<Sampling>)).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringMatching(message),
    });
  });

  it.each([{ topLogprobs: 21 }, { topLogprobs: 0.5 }, { samplerLogprobs: 1 }])(
    "is refused when it makes no sense: %j",
    async (more) => {
      await expect(one({}, more as Partial<SampleRequest>)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    },
  );
});

async function nextLogprob(token: number): Promise<number> {
  const request = { tokens: prompt, sampling: defaultSampling, seed: 0 };
  const sample = { tokens: Int32Array.of(token) } as Sample;
  return (await scored([request], [sample], 1))[0]![0]!;
}

/** From the hidden state and the head's own weights, not by the engine's sampling. */
async function nextLogits(tokens: readonly number[]): Promise<number[]> {
  const tree: TokenTree = {
    tokens: Int32Array.from(tokens),
    nodeStart: Int32Array.of(0, tokens.length),
    nodeParent: Int32Array.of(-1),
    wanted: new Uint8Array(tokens.length),
  };
  const { hidden } = await policy.forward(tree, { grad: false, hidden: true });
  const last = hidden!.slice(-policy.model.hiddenSize);
  return Array.from({ length: 512 }, (_, token) =>
    last.reduce((sum, value, i) => sum + value * head[token * last.length + i]!, 0),
  );
}
