/** What every Policy promises, as tests: run over each engine by contract.test.ts. An engine of your own passes them the same way. */

import { afterEach, describe, expect, it } from "vitest";
import { ChainBuilder } from "../conversation/chain.ts";
import type { Message } from "../conversation/message.ts";
import { expectAlike, expectNear, hello, request, treeOf } from "./contract-parts.cases.ts";
import { describePrompts } from "./contract-prompts.cases.ts";
import { describeTrainer } from "./contract-trainer.cases.ts";
import type { Policy, Sample, Sampling } from "./policy.ts";

export interface ContractOptions {
  /** A new policy each time, with the same weights. */
  open(): Promise<Policy>;
  /** False for one that only pretends to learn, or cannot. */
  trains: boolean;
  /** False for one whose replies are not drawn from a distribution. */
  draws?: boolean;
}

export function describePolicy(name: string, { open, trains, draws = true }: ContractOptions): void {
  describe(name, () => {
    const opened: Policy[] = [];
    const policyOf = async () => {
      const policy = await open();
      opened.push(policy);
      return policy;
    };
    afterEach(async () => {
      await Promise.all(opened.splice(0).map((policy) => policy.close()));
    });

    describe("as a sampler", () => {
      it("says the same for the same seed, whoever samples beside it, and something else for another", async () => {
        const policy = await policyOf();
        const requests = [1, 2, 3].map((seed) => request(policy, { seed }));
        const together = await policy.sample(requests);
        for (const [i, one] of requests.entries()) {
          const [alone] = await policy.sample([one]);
          expectAlike(policy, alone!, together[i]!);
        }
        expect(await policy.sample([])).toEqual([]);
        if (draws) expect(new Set(together.map(({ tokens }) => tokens.join())).size).toBeGreaterThan(1);
      });

      it("gives tokens with log-probs, the text they stand for, and why it ended", async () => {
        const policy = await policyOf();
        const [sample] = await policy.sample([request(policy, { maxTokens: 5 })]);
        const { tokens, logprobs, text, finishReason } = sample!;
        expect(tokens.length).toBeLessThanOrEqual(5);
        expect(logprobs).toHaveLength(tokens.length);
        for (const logprob of logprobs) expect(logprob).toBeLessThanOrEqual(0);
        expect(policy.tokenizer.decode(tokens)).toBe(text);
        const ended = policy.model.endTokens.includes(tokens.at(-1)!);
        expect(finishReason).toBe(ended ? "stop" : "length");
      });

      it("tells tokens as they come; together they are the reply", async () => {
        const policy = await policyOf();
        const told: { request: number; token: number; text: string }[] = [];
        const requests = [1, 2].map((seed) => request(policy, { seed, maxTokens: 8 }));
        const samples = await policy.sample(requests, { onToken: (token) => void told.push(token) });
        samples.forEach(({ tokens, text }, i) => {
          const own = told.filter((token) => token.request === i);
          expect(own.map(({ token }) => token)).toEqual([...tokens]);
          expect(own.map((token) => token.text).join("")).toBe(text);
        });
      });

      it("stops at a stop token and at a stop text, which the text leaves out", async () => {
        const policy = await policyOf();
        const [free] = await policy.sample([request(policy, { maxTokens: 12 })]);
        const token = free!.tokens[1]!;
        const [atToken] = await policy.sample([request(policy, { maxTokens: 12, stopTokens: [token] })]);
        expect(atToken).toMatchObject({ finishReason: "stop" });
        expect([...atToken!.tokens]).toEqual([...free!.tokens.slice(0, free!.tokens.indexOf(token) + 1)]);
        const word = free!.text.trim().split(/\s+/).at(-1)!;
        const [atText] = await policy.sample([request(policy, { maxTokens: 12, stop: [word] })]);
        expect(atText!.finishReason).toBe("stop");
        expect(free!.text.startsWith(atText!.text)).toBe(true);
        expect(atText!.text).not.toContain(word);
      });

      it("ends what an abort stops, before or while it samples", async () => {
        const policy = await policyOf();
        const stop = new AbortController();
        const running = policy.sample([request(policy, { maxTokens: 200 })], {
          signal: stop.signal,
          onToken: () => stop.abort(),
        });
        expect((await running)[0]!.tokens.length).toBeLessThan(200);
        const [late] = await policy.sample([request(policy)], { signal: stop.signal });
        expect(late).toMatchObject({ finishReason: "aborted", text: "" });
      });

      it("refuses a prompt that leaves no room for a reply", async () => {
        const policy = await policyOf();
        const tokens = new Int32Array(policy.model.contextLength).fill(request(policy).tokens[0]!);
        await expect(policy.sample([{ ...request(policy), tokens }])).rejects.toMatchObject({
          code: "CONTEXT_OVERFLOW",
        });
      });

      it("shares what it computed within a namespace alone, and says the same in each", async () => {
        const policy = await policyOf();
        const asked = (namespace?: string) => ({ ...request(policy, { maxTokens: 4 }), namespace });
        const names = [undefined, "", "a", "a", "b", undefined];
        const samples: Sample[] = [];
        for (const name of names) samples.push(...(await policy.sample([asked(name)])));
        samples.push(...(await policy.sample(["c", "d", "c"].map(asked))));
        for (const sample of samples) expectAlike(policy, sample, samples[0]!);
        // One that keeps nothing has nothing to say.
        if (samples[0]!.cachedTokens === undefined) return;
        const shared = samples.map(({ cachedTokens }) => cachedTokens! > 0);
        expect(shared).toEqual([false, true, false, true, false, true, false, false, true]);
      });

      it("names the weights that spoke, and counts what it did", async () => {
        const policy = await policyOf();
        const before = policy.stats();
        const one = request(policy, { maxTokens: 4 });
        const [sample] = await policy.sample([one]);
        expect(sample!.version).toBe(policy.version);
        expect((await policyOf()).version).toBe(policy.version);
        const after = policy.stats();
        expect(after.promptTokens - before.promptTokens).toBe(one.tokens.length);
        expect(after.sampledTokens - before.sampledTokens).toBe(sample!.tokens.length);
        expect(after).toMatchObject({ running: 0, waiting: 0, versions: 1 });
      });

      it("refuses everything after close(), which may be called twice", async () => {
        const policy = await policyOf();
        const one = request(policy);
        await policy.close();
        await policy.close();
        await expect(policy.sample([one])).rejects.toMatchObject({ code: "POLICY_CLOSED" });
      });

      it("keeps a conversation one chain of the sampled tokens", async () => {
        const policy = await policyOf();
        const { tokenizer } = policy;
        const options = { addGenerationPrompt: true };
        const first = tokenizer.extend(undefined, hello, options);
        const chain = new ChainBuilder({ messages: hello, tokens: first.tokens });
        const [sample] = await policy.sample([request(policy, { maxTokens: 6 })]);
        const message: Message = { role: "assistant", content: sample!.text };
        const text = tokenizer.decode(sample!.tokens, { skipSpecial: false });
        chain.record(sample!, { message, text, ended: sample!.finishReason === "stop" ? "end-token" : "length" }, 1);
        const next = tokenizer.extend(chain, [...hello, message, { role: "user", content: "and then" }], options);
        expect(next.kind).toBe("append");
      });
    });

    describe("as a reader", () => describePrompts(policyOf));

    describe.runIf(draws)("when more than the temperature chooses", () => {
      const shapes: Partial<Sampling>[] = [
        { topP: 0.5 },
        { topK: 2 },
        { minP: 0.4 },
        { repetitionPenalty: 1.6 },
        { presencePenalty: 1.5, frequencyPenalty: 0.7 },
        { minTokens: 6 },
      ];
      it.each(shapes)("records the log-probs of the policy itself (%o)", async (shape) => {
        const policy = await policyOf();
        const asked = { ...request(policy, { maxTokens: 12, ...shape }), samplerLogprobs: true };
        const [sample] = await policy.sample([asked]);
        const scored = await policy.forward(treeOf(asked.tokens, sample!), { grad: false });
        expectNear(policy, scored.logprobs.subarray(asked.tokens.length), sample!.logprobs);
        expect(sample!.samplerLogprobs).toHaveLength(sample!.tokens.length);
        expect(sample!.tokens.length).toBeGreaterThanOrEqual(shape.minTokens ?? 1);
      });

      it("follows a bias, and reports the likeliest tokens with the same log-probs", async () => {
        const policy = await policyOf();
        const wanted = policy.tokenizer.encode("order")[0]!;
        const asked = request(policy, { maxTokens: 3, logitBias: { [wanted]: 100 } });
        const [sample] = await policy.sample([{ ...asked, topLogprobs: 3 }]);
        expect([...sample!.tokens]).toEqual([wanted, wanted, wanted]);
        for (const best of sample!.topLogprobs!) {
          expect(best).toHaveLength(3);
          expect(best.map(({ logprob }) => logprob)).toEqual(
            [...best.map(({ logprob }) => logprob)].sort((a, b) => b - a),
          );
        }
      });
    });

    describe.runIf(trains)("as a trainer", () => describeTrainer(policyOf));
  });
}
