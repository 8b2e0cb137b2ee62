/** What every Policy promises, as tests: run over each engine by contract.test.ts. An engine of your own passes them the same way. */

import { afterEach, describe, expect, it } from "vitest";
import { readVector } from "../../test/read-vector.ts";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { ChainBuilder } from "../conversation/chain.ts";
import type { Message } from "../conversation/message.ts";
import { buildTokenTree } from "../conversation/token-tree.ts";
import { describePrompts } from "./contract-prompts.cases.ts";
import {
  defaultSampling,
  type Policy,
  type Sample,
  type SampleRequest,
  type Sampling,
  type TokenTree,
} from "./policy.ts";

export interface ContractOptions {
  /** A new policy each time, with the same weights. */
  open(): Promise<Policy>;
  /** False for one that only pretends to learn, or cannot. */
  trains: boolean;
  /** False for one whose replies are not drawn from a distribution. */
  draws?: boolean;
}

const hello: Message[] = [{ role: "user", content: "hello order" }];
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

    describe.runIf(trains)("as a trainer", () => {
      it("scores what it sampled to the bit, where it says that it is exact", async () => {
        const policy = await policyOf();
        const requests = [1, 2, 3].map((seed) => request(policy, { seed, maxTokens: 10 }));
        const samples = await policy.sample(requests);
        const chains = samples.map((sample, i) => chainOf(requests[i]!.tokens, sample));
        const { tree, positions } = buildTokenTree(chains);
        const { logprobs } = await policy.forward(tree, { grad: false });
        samples.forEach((sample, i) => {
          const own = sample.tokens.map((_, t) => positions[i]![requests[i]!.tokens.length + t]!);
          const scored = Float32Array.from(own, (place) => logprobs[place]!);
          expectNear(policy, scored, sample.logprobs);
        });
      });

      it("gives entropy, values and hidden states where it says it can", async () => {
        const policy = await policyOf();
        const { capabilities, model } = policy;
        await policy.addValueHead();
        const tree = line(policy);
        const { entropy, values, hidden } = await policy.forward(tree, {
          grad: false,
          entropy: capabilities.entropy,
          values: capabilities.values,
          hidden: capabilities.hidden,
        });
        if (capabilities.entropy) for (const value of entropy!) expect(value).toBeGreaterThanOrEqual(0);
        // A new head says 0 everywhere: noise would be worse than no critic.
        if (capabilities.values) expect(values).toEqual(new Float32Array(tree.tokens.length));
        if (capabilities.hidden) expect(hidden).toHaveLength(tree.tokens.length * model.hiddenSize);
      });

      it("adds gradients up, moves along them, and names the weights anew", async () => {
        const policy = await policyOf();
        const before = await total(policy);
        const start = policy.version;
        for (let i = 0; i < 2; i++) await push(policy);
        const report = await policy.step({ learningRate: 1e-2 });
        expect(report).toMatchObject({ applied: true, version: policy.version });
        expect(report.gradNorm).toBeGreaterThan(0);
        expect(policy.version).not.toBe(start);
        expect(await total(policy)).toBeGreaterThan(before);
        const [sample] = await policy.sample([request(policy)]);
        expect(sample!.version).toBe(policy.version);
        // Nothing is left of the gradients.
        expect((await policy.step({ learningRate: 0 })).gradNorm).toBe(0);
      });

      it("forgets gradients when told to, and does not move by what is not finite", async () => {
        const policy = await policyOf();
        await push(policy);
        await policy.zeroGradients();
        const { version } = policy;
        const pass = await policy.forward(line(policy));
        await policy.backward(pass, { logprobs: new Float32Array(pass.logprobs.length).fill(Number.NaN) });
        expect(await policy.step({ learningRate: 1 })).toMatchObject({ applied: false });
        expect(policy.version).toBe(version);
        await push(policy);
        expect(await policy.step({ learningRate: 1e-3 })).toMatchObject({ applied: true });
      });

      it("keeps several passes alive, in any order, and takes each back once", async () => {
        const policy = await policyOf();
        const gradient = async (order: readonly number[]) => {
          const passes = [await policy.forward(line(policy)), await policy.forward(line(policy, 3))];
          for (const i of order) await policy.backward(passes[i]!, ones(passes[i]!.logprobs));
          await expect(policy.backward(passes[0]!, ones(passes[0]!.logprobs))).rejects.toThrow();
          const vector = await readVector(policy, "gradients");
          await policy.zeroGradients();
          return vector;
        };
        const [one, other] = [await gradient([0, 1]), await gradient([1, 0])];
        const norm = (vector: Float32Array) => Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
        expect(norm(one.map((value, i) => value - other[i]!))).toBeLessThan(1e-5 * norm(one));
      });

      it("moves along a vector of its parameters", async () => {
        const policy = await policyOf();
        if (!policy.capabilities.vectors) return;
        const before = await readVector(policy, "parameters");
        expect(before).toHaveLength(policy.model.trainableParameters);
        const [start, direction] = [await policy.vector("parameters"), await policy.vector("parameters")];
        await direction.scale(0.5);
        const there = await start.copy();
        await there.add(direction, 3);
        const { version } = await policy.moveTo(there);
        expect(policy.version).toBe(version);
        const after = await readVector(policy, "parameters");
        expect(after.every((value, i) => Math.abs(value - 2.5 * before[i]!) <= 1e-6 * Math.abs(value))).toBe(true);
        const squares = before.reduce((sum, value) => sum + value * value, 0);
        expect(await start.dot(direction)).toBeCloseTo(squares / 2, 3);
        await policy.moveTo(start);
        expect(await readVector(policy, "parameters")).toEqual(before);
        for (const vector of [start, direction, there]) vector.release();
        await expect(start.copy()).rejects.toThrow();
      });

      it("keeps references as they were: the present, the base, several, moved, from files, closed", async () => {
        const policy = await policyOf();
        const tree = line(policy);
        const scores = async () => (await policy.forward(tree, { grad: false })).logprobs;
        const atStart = await scores();
        const start = await policy.reference();
        await move(policy);
        const [later, average] = [await policy.reference("present"), await policy.reference("present")];
        const atLater = await scores();
        await move(policy);
        expectNear(policy, await start.logprobs(tree), atStart);
        expectNear(policy, await later.logprobs(tree), atLater);
        expectNear(policy, await (await policy.reference("base")).logprobs(tree), atStart);
        expect(start.version).not.toBe(later.version);
        const dir = temporaryFolder();
        await later.save(dir);
        const again = await policy.reference({ from: dir });
        expectNear(policy, await again.logprobs(tree), atLater);
        expect(again.version).toBe(later.version);
        await average.blend(0);
        expectNear(policy, await average.logprobs(tree), await scores());
        expect(average.version).not.toBe(later.version);
        await start.close();
        await expect(start.logprobs(tree)).rejects.toMatchObject({ code: "POLICY_CLOSED" });
        expectNear(policy, await later.logprobs(tree), atLater);
      });

      it("goes on from a snapshot as if it had never stopped", async () => {
        const policy = await policyOf();
        await move(policy);
        const dir = temporaryFolder();
        await policy.snapshot(dir);
        const other = await policyOf();
        await move(other);
        await move(other);
        const { version } = await other.restore(dir);
        expect(version).toBe(policy.version);
        for (const each of [policy, other]) await move(each);
        expectNear(policy, await readVector(other, "parameters"), await readVector(policy, "parameters"));
        if (policy.capabilities.exact) expect(other.version).toBe(policy.version);
      });

      it("takes in saved weights as one change", async () => {
        const policy = await policyOf();
        await move(policy);
        const dir = temporaryFolder();
        await policy.save(dir);
        const other = await policyOf();
        const { version } = await other.load(dir);
        expect(version).toBe(other.version);
        const scores = async (of: Policy) => (await of.forward(line(policy), { grad: false })).logprobs;
        expectNear(policy, await scores(other), await scores(policy));
        await expect(other.load(temporaryFolder())).rejects.toThrow();
        expectNear(policy, await scores(other), await scores(policy));
        // What the optimiser learnt from other weights is gone.
        await move(policy);
        await policy.load(dir);
        for (const each of [policy, other]) await move(each);
        expectNear(policy, await readVector(other, "parameters"), await readVector(policy, "parameters"));
      });
    });
  });
}

type Asked = Partial<Sampling> & { seed?: number };

function request(policy: Policy, { seed = 1, ...sampling }: Asked = {}): SampleRequest {
  const { tokens } = policy.tokenizer.extend(undefined, hello, { addGenerationPrompt: true });
  return { tokens, sampling: { ...defaultSampling, maxTokens: 16, ...sampling }, seed };
}

/** To the bit where the engine is exact; elsewhere as near as other sums of the same numbers are. */
function expectNear({ capabilities }: Policy, numbers: Float32Array, wanted: Float32Array): void {
  if (capabilities.exact) expect(numbers).toEqual(wanted);
  expect(numbers).toHaveLength(wanted.length);
  expect(numbers.findIndex((value, i) => !(Math.abs(value - wanted[i]!) <= 0.01 + 0.001 * Math.abs(wanted[i]!)))).toBe(
    -1,
  );
}

/** The same sample where it follows from the seed; elsewhere the same until a token whose odds were a rounding apart. */
function expectAlike(policy: Policy, sample: Sample, wanted: Sample): void {
  if (policy.capabilities.seeded) expect(essence(sample)).toEqual(essence(wanted));
  const parted = sample.tokens.findIndex((token, i) => token !== wanted.tokens[i]);
  const common = parted < 0 ? sample.tokens.length : parted;
  expectNear(policy, sample.logprobs.subarray(0, common), wanted.logprobs.subarray(0, common));
  expect(sample.version).toBe(wanted.version);
}

/** What must not depend on the neighbours. */
function essence({ tokens, logprobs, text, finishReason, version }: Sample) {
  return { tokens, logprobs, text, finishReason, version };
}

function chainOf(prompt: Int32Array, { tokens }: Pick<Sample, "tokens">) {
  const all = Int32Array.from([...prompt, ...tokens]);
  return { tokens: all, learn: Uint8Array.from(all, (_, i) => (i >= prompt.length ? 1 : 0)) };
}

function treeOf(prompt: Int32Array, sample: Sample): TokenTree {
  return buildTokenTree([chainOf(prompt, sample)]).tree;
}

/** A prompt whose tokens are all wanted. */
function line(policy: Policy, skip = 1): TokenTree {
  const { tokens } = request(policy);
  return buildTokenTree([{ tokens, learn: Uint8Array.from(tokens, (_, i) => (i >= skip ? 1 : 0)) }]).tree;
}

const ones = (numbers: Float32Array) => ({ logprobs: Float32Array.from(numbers, (value) => (value === 0 ? 0 : -1)) });

/** Adds the gradient of making line() likelier. */
async function push(policy: Policy): Promise<void> {
  const pass = await policy.forward(line(policy));
  await policy.backward(pass, ones(pass.logprobs));
}

async function move(policy: Policy): Promise<void> {
  await push(policy);
  await policy.step({ learningRate: 1e-2 });
}

async function total(policy: Policy): Promise<number> {
  return (await policy.forward(line(policy), { grad: false })).logprobs.reduce((sum, value) => sum + value, 0);
}
