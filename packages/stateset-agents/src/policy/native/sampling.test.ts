import { getEventListeners } from "node:events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeTinyModel, storiesDir } from "../../../test/tiny-model.ts";
import type { Policy, Sample, SampleRequest, SampleToken, TokenTree } from "../policy.ts";
import { defaultSampling } from "../policy.ts";
import { loadNativePolicy } from "./load.ts";

const prompt = Int32Array.of(1, 403, 407, 261, 378);
let policy: Policy;
beforeAll(async () => {
  policy = await loadNativePolicy({ dir: storiesDir });
});
afterAll(() => policy.close());

const request = (seed: number, changes: Partial<SampleRequest["sampling"]> = {}, tokens = prompt): SampleRequest => ({
  tokens,
  sampling: { ...defaultSampling, maxTokens: 20, ...changes },
  seed,
});

/** A sample without what depends on its neighbours: how it was served. */
const drawn = ({ cachedTokens: _, queuedMs: __, ...rest }: Sample) => rest;

/** log p of every token of the vocabulary after the prompt: the prompt as root, each token a leaf. */
async function nextLogprobs(of: Policy, tokens: Int32Array, temperature: number): Promise<Float32Array> {
  const vocab = of.model.vocabSize;
  const tree: TokenTree = {
    tokens: Int32Array.of(...tokens, ...Array(vocab).keys()),
    nodeStart: Int32Array.of(0, ...Array.from({ length: vocab + 1 }, (_, i) => tokens.length + i)),
    nodeParent: Int32Array.of(-1, ...Array(vocab).fill(0)),
    wanted: new Uint8Array(tokens.length + vocab).fill(1, tokens.length),
  };
  const { logprobs } = await of.forward(tree, { grad: false, temperature });
  return logprobs.slice(tokens.length);
}

describe("sampling", () => {
  it.each([0.7, 1, 1.3])("draws from the exact distribution at temperature %f", async (temperature) => {
    const logprobs = await nextLogprobs(policy, prompt, temperature);
    expect(Math.abs(logprobs.reduce((sum, value) => sum + Math.exp(value), 0) - 1)).toBeLessThan(1e-4);
    const draws = 4000;
    const counts = new Float64Array(policy.model.vocabSize);
    const samples = await policy.sample(
      Array.from({ length: draws }, (_, seed) => request(seed, { temperature, maxTokens: 1 })),
    );
    for (const { tokens, logprobs: recorded } of samples) {
      counts[tokens[0]!]!++;
      expect(recorded[0]).toBe(logprobs[tokens[0]!]);
    }
    // Pearson's chi-square; what is expected fewer than 5 times is one class.
    let [chi2, classes, restCount, restExpected] = [0, 0, 0, 0];
    logprobs.forEach((logprob, token) => {
      const expected = draws * Math.exp(logprob);
      if (expected < 5) {
        restCount += counts[token]!;
        restExpected += expected;
      } else {
        chi2 += (counts[token]! - expected) ** 2 / expected;
        classes++;
      }
    });
    if (restExpected > 0) chi2 += (restCount - restExpected) ** 2 / restExpected;
    // Mean = degrees of freedom, deviation √(2·df): five deviations off does not happen by chance.
    expect(chi2).toBeLessThan(classes + 5 * Math.sqrt(2 * classes));
  });

  it("repeats itself for a seed, and not for another", async () => {
    const [a] = await policy.sample([request(5)]);
    const [b, c] = await policy.sample([request(5), request(6)]);
    expect(drawn(b!)).toEqual(drawn(a!));
    expect(c!.tokens).not.toEqual(a!.tokens);
  });

  it("gives a request the same result whoever its neighbours are and whenever they come", async () => {
    const alone = await Promise.all([1, 2, 3].map(async (seed) => drawn((await policy.sample([request(seed)]))[0]!)));
    const long = Int32Array.from({ length: 300 }, (_, i) => (i * 31 + 3) % 512);
    const crowd = policy.sample([
      ...Array.from({ length: 30 }, (_, i) => request(100 + i, { maxTokens: 40 }, i % 2 ? long : prompt)),
      request(1),
    ]);
    const late = policy.sample([request(2)]);
    const later = new Promise((resolve) => setTimeout(resolve, 5)).then(() => policy.sample([request(3)]));
    expect([(await crowd).at(-1)!, (await late)[0]!, (await later)[0]!].map(drawn)).toEqual(alone);
  });

  it("gives the same results with few slots and no room to cache", async () => {
    const cramped = await loadNativePolicy({ dir: storiesDir, slots: 2, cacheBytes: 0, threads: 1 });
    const requests = Array.from({ length: 7 }, (_, seed) => request(seed, { maxTokens: 150 }));
    expect((await cramped.sample(requests)).map(drawn)).toEqual((await policy.sample(requests)).map(drawn));
    await cramped.close();
  });

  it("keeps to top-k, top-p and min-p, but reports untruncated log-probs", async () => {
    const logprobs = await nextLogprobs(policy, prompt, 1);
    const order = [...logprobs.keys()].sort((a, b) => logprobs[b]! - logprobs[a]!);
    const seen = async (changes: Partial<SampleRequest["sampling"]>) => {
      const requests = Array.from({ length: 300 }, (_, seed) => request(seed, { ...changes, maxTokens: 1 }));
      const samples = await policy.sample(requests);
      for (const { tokens, logprobs: recorded } of samples) expect(recorded[0]).toBe(logprobs[tokens[0]!]);
      return [...new Set(samples.map(({ tokens }) => tokens[0]!))].sort((a, b) => order.indexOf(a) - order.indexOf(b));
    };
    expect(await seen({ topK: 1 })).toEqual([order[0]]);
    expect((await seen({ topK: 3 })).every((token) => order.indexOf(token) < 3)).toBe(true);
    let mass = 0;
    const nucleus = order.findIndex((token) => {
      mass += Math.exp(logprobs[token]!);
      return mass >= 0.5;
    });
    expect((await seen({ topP: 0.5 })).every((token) => order.indexOf(token) <= nucleus)).toBe(true);
    const line = logprobs[order[0]!]! + Math.log(0.3);
    expect((await seen({ minP: 0.3 })).every((token) => logprobs[token]! >= line - 1e-5)).toBe(true);
  });

  it("avoids what it has said under a repetition penalty", async () => {
    const [plain] = await policy.sample([request(0, { temperature: 0, maxTokens: 120 })]);
    const [varied] = await policy.sample([request(0, { temperature: 0, maxTokens: 120, repetitionPenalty: 1.5 })]);
    const distinct = (tokens: Int32Array) => new Set(tokens).size / tokens.length;
    expect(distinct(varied!.tokens)).toBeGreaterThan(distinct(plain!.tokens));
  });

  it("ends at a stop token of the request, streaming or not", async () => {
    const [free] = await policy.sample([request(3, { maxTokens: 60 })]);
    const stopTokens = [free!.tokens[9]!];
    const length = free!.tokens.indexOf(stopTokens[0]!) + 1;
    const ended = { finishReason: "stop", tokens: free!.tokens.slice(0, length) };
    const [cut] = await policy.sample([request(3, { maxTokens: 60, stopTokens })]);
    expect(cut).toMatchObject(ended);
    const seen: SampleToken[] = [];
    const onToken = (token: SampleToken) => void seen.push(token);
    const [streamed] = await policy.sample([request(3, { maxTokens: 60, stopTokens })], { onToken });
    expect(drawn(streamed!)).toEqual(drawn(cut!));
    expect(seen).toHaveLength(length);
    expect(seen.map(({ text }) => text).join("")).toBe(cut!.text);
    await expect(policy.sample([request(3, { stopTokens: [policy.model.vocabSize] })])).rejects.toThrow(/vocabulary/);
  });

  it("ends at a stop text with the token that completed it, and leaves the stop text out", async () => {
    const [free] = await policy.sample([request(0, { temperature: 0, maxTokens: 100 })]);
    const stop = free!.text.slice(60, 66);
    const heard: SampleToken[] = [];
    const sampling = { temperature: 0, maxTokens: 100, stop: [stop] };
    const [cut] = await policy.sample([request(0, sampling)], { onToken: (token) => heard.push(token) });
    expect(cut!.finishReason).toBe("stop");
    expect(cut!.text).toBe(free!.text.slice(0, free!.text.indexOf(stop)));
    expect(cut!.tokens).toEqual(free!.tokens.slice(0, cut!.tokens.length));
    const spelled = policy.tokenizer.decode(cut!.tokens);
    expect(spelled).toContain(stop);
    expect(policy.tokenizer.decode(cut!.tokens.slice(0, -1))).not.toContain(stop);
    expect(heard.map(({ token }) => token)).toEqual([...cut!.tokens]);
    expect(heard.map(({ text }) => text).join("")).toBe(cut!.text);
    expect(Float32Array.from(heard, ({ logprob }) => logprob)).toEqual(cut!.logprobs);
  });

  it("streams every token of every request in order", async () => {
    const heard = new Map<number, SampleToken[]>([0, 1, 2].map((index) => [index, []]));
    const samples = await policy.sample([request(1), request(2), request(3)], {
      onToken: (token) => heard.get(token.request)!.push(token),
    });
    samples.forEach((sample, index) => {
      expect(heard.get(index)!.map(({ token }) => token)).toEqual([...sample.tokens]);
      expect(
        heard
          .get(index)!
          .map(({ text }) => text)
          .join(""),
      ).toBe(sample.text);
    });
  });

  it("stops soon when aborted and gives what there is", async () => {
    const controller = new AbortController();
    let count = 0;
    const [sample] = await policy.sample([request(1, { maxTokens: 400 })], {
      signal: controller.signal,
      onToken: () => {
        if (++count === 5) controller.abort();
      },
    });
    expect(sample).toMatchObject({ finishReason: "aborted" });
    expect(sample!.tokens.length).toBe(5);
    const [never] = await policy.sample([request(1)], { signal: controller.signal });
    expect(never).toMatchObject({ finishReason: "aborted", text: "" });
  });

  it("lets any number of calls share a signal, without a warning of leaks, and leaves nothing on it", async () => {
    const warnings: Error[] = [];
    const hear = (warning: Error) => warnings.push(warning);
    process.on("warning", hear);
    const controller = new AbortController();
    const { signal } = controller;
    const calls = Array.from({ length: 24 }, (_, i) => policy.sample([request(i, { maxTokens: 200 })], { signal }));
    const short = await policy.sample([request(1, { maxTokens: 1 })], { signal });
    expect(short[0]!.tokens).toHaveLength(1);
    controller.abort();
    const reasons = (await Promise.all(calls)).map(([sample]) => sample!.finishReason);
    expect(reasons.filter((reason) => reason === "aborted").length).toBeGreaterThan(12);
    expect(getEventListeners(signal, "abort")).toEqual([]);
    process.off("warning", hear);
    expect(warnings).toEqual([]);
  });

  it("passes on what onToken throws, and stays usable", async () => {
    const onToken = () => {
      throw new Error("listener broke");
    };
    await expect(policy.sample([request(1), request(2)], { onToken })).rejects.toThrow("listener broke");
    expect((await policy.sample([request(1)]))[0]!.tokens.length).toBeGreaterThan(0);
  });

  it("uses the new weights after a step, also for a prompt it has seen", async () => {
    const own = await loadNativePolicy({ dir: await makeTinyModel("llama") });
    const greedy = request(0, { temperature: 0, maxTokens: 8 });
    const [before] = await own.sample([greedy]);
    const tree: TokenTree = {
      tokens: prompt,
      nodeStart: Int32Array.of(0, prompt.length),
      nodeParent: Int32Array.of(-1),
      wanted: Uint8Array.of(0, 1, 1, 1, 1),
    };
    const pass = await own.forward(tree);
    await own.backward(pass, { logprobs: new Float32Array(prompt.length).fill(1) });
    // Sampling that was asked for before the step is done with the old weights, whatever runs when.
    const [during, , after] = await Promise.all([
      own.sample([greedy]),
      own.step({ learningRate: 0.1 }),
      own.sample([greedy]),
    ]);
    expect(drawn(during[0]!)).toEqual(drawn(before!));
    expect(after[0]!.logprobs).not.toEqual(before!.logprobs);
    const fresh = await nextLogprobs(own, prompt, 1);
    expect(after[0]!.logprobs[0]).toBe(fresh[after[0]!.tokens[0]!]);
    await own.close();
  });
});
