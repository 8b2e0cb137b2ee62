/** What a Policy promises about texts that it is only to read: their log-probs, and the mean of their hidden states. */
import { expect, it } from "vitest";
import { buildTokenTree } from "../conversation/token-tree.ts";
import { defaultSampling, type Policy, type SampleRequest } from "./policy.ts";

export function describePrompts(policyOf: () => Promise<Policy>): void {
  it("gives the log-probs of a prompt, those of forward(), with or without a reply, whatever it has kept", async () => {
    const policy = await policyOf();
    if (!policy.capabilities.promptLogprobs) return;
    const [tokens] = textsOf(policy) as [Int32Array];
    const temperature = 0.8;
    const asked = (maxTokens: number, promptLogprobs?: number): SampleRequest => ({
      tokens,
      seed: 3,
      sampling: { ...defaultSampling, temperature, maxTokens },
      promptLogprobs,
    });
    const [plain] = await policy.sample([asked(4)]);
    const [reply, bare] = await policy.sample([asked(4, 2), asked(0, 0)]);
    expect(reply).toMatchObject({ tokens: plain!.tokens, logprobs: plain!.logprobs });
    expect(bare).toMatchObject({ tokens: new Int32Array(), text: "", finishReason: "length" });
    expect(bare!.promptTopLogprobs).toBeUndefined();
    expect(plain!.promptLogprobs).toBeUndefined();
    const { logprobs } = await policy.forward(treeOf(tokens), { grad: false, temperature });
    expect(bare!.promptLogprobs).toEqual(logprobs);
    expect(reply!.promptLogprobs).toEqual(logprobs);
    expect(reply!.promptTopLogprobs!.map((best) => best.length)).toEqual(Array.from(tokens, (_, i) => (i > 0 ? 2 : 0)));
    reply!.promptTopLogprobs!.slice(1).forEach((best, i) => {
      expect(best[0]!.logprob).toBeGreaterThanOrEqual(best[1]!.logprob);
      const own = best.find(({ token }) => token === tokens[i + 1]);
      if (own) expect(own.logprob).toBe(logprobs[i + 1]);
    });
    await expect(policy.sample([asked(0)])).rejects.toMatchObject({ code: "INVALID_OPTION" });
  });

  it("gives the mean of a text's hidden states, those of forward(), until it is aborted", async () => {
    const policy = await policyOf();
    expect(policy.capabilities.embed ?? false).toBe(policy.embed !== undefined);
    if (!policy.embed) return;
    const texts = textsOf(policy);
    const means = await policy.embed(texts);
    expect(means).toHaveLength(texts.length);
    for (const [i, tokens] of texts.entries()) {
      const { hidden } = await policy.forward(treeOf(tokens), { grad: false, hidden: true });
      expect(means[i]).toEqual(meanOf(hidden!, policy.model.hiddenSize));
    }
    expect(await policy.embed([])).toEqual([]);
    await expect(policy.embed([new Int32Array()])).rejects.toMatchObject({ code: "INVALID_OPTION" });
    const tooLong = new Int32Array(policy.model.contextLength + 1).fill(texts[0]![0]!);
    await expect(policy.embed([tooLong])).rejects.toMatchObject({ code: "CONTEXT_OVERFLOW" });
    const stop = new AbortController();
    const running = policy.embed([tooLong.subarray(1), tooLong.subarray(2)], { signal: stop.signal });
    stop.abort();
    await expect(running).rejects.toMatchObject({ code: "ABORTED" });
    await expect(policy.embed(texts, { signal: stop.signal })).rejects.toMatchObject({ code: "ABORTED" });
    expect(policy.stats()).toMatchObject({ running: 0, waiting: 0 });
  });
}

/** The second is as long as the context allows. */
function textsOf({ tokenizer, model }: Policy): Int32Array[] {
  const { tokens } = tokenizer.extend(undefined, [{ role: "user", content: "hello order" }]);
  return [tokens, Int32Array.from({ length: model.contextLength }, (_, i) => tokens[i % tokens.length]!)];
}

function treeOf(tokens: Int32Array) {
  return buildTokenTree([{ tokens, learn: new Uint8Array(tokens.length).fill(1) }]).tree;
}

/** Summed in double precision, in the order of the tokens. */
function meanOf(hidden: Float32Array, width: number): Float32Array {
  const sums = new Float64Array(width);
  for (const [i, value] of hidden.entries()) sums[i % width]! += value;
  return Float32Array.from(sums, (sum) => sum / (hidden.length / width));
}
