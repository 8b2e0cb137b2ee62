/** What the cases of the contract share: a prompt, a tree of it, and when two results are alike. */
import { expect } from "vitest";
import type { Message } from "../conversation/message.ts";
import { buildTokenTree } from "../conversation/token-tree.ts";
import {
  defaultSampling,
  type Policy,
  type Sample,
  type SampleRequest,
  type Sampling,
  type TokenTree,
} from "./policy.ts";

export const hello: Message[] = [{ role: "user", content: "hello order" }];

type Asked = Partial<Sampling> & { seed?: number };

export function request(policy: Policy, { seed = 1, ...sampling }: Asked = {}): SampleRequest {
  const { tokens } = policy.tokenizer.extend(undefined, hello, { addGenerationPrompt: true });
  return { tokens, sampling: { ...defaultSampling, maxTokens: 16, ...sampling }, seed };
}

/** To the bit where the engine is exact; elsewhere as near as other sums of the same numbers are. */
export function expectNear({ capabilities }: Policy, numbers: Float32Array, wanted: Float32Array): void {
  if (capabilities.exact) expect(numbers).toEqual(wanted);
  expect(numbers).toHaveLength(wanted.length);
  expect(numbers.findIndex((value, i) => !(Math.abs(value - wanted[i]!) <= 0.01 + 0.001 * Math.abs(wanted[i]!)))).toBe(
    -1,
  );
}

/**
 * Weights that went the same way from `start`: to the bit where the engine is exact, elsewhere but for a little of the way. expectNear() would
 * not see that a step is missing: it moves each of them by no more than its learning rate.
 */
export function expectMovedAlike(
  { capabilities }: Policy,
  [numbers, wanted]: readonly [Float32Array, Float32Array],
  start: Float32Array,
): void {
  if (capabilities.exact) expect(numbers).toEqual(wanted);
  const apart = normOf(numbers.map((value, i) => value - wanted[i]!));
  expect(apart).toBeLessThan(0.02 * normOf(wanted.map((value, i) => value - start[i]!)));
}

export const normOf = (vector: Float32Array) => Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));

/** The same sample where it follows from the seed; elsewhere the same until a token whose odds were a rounding apart. */
export function expectAlike(policy: Policy, sample: Sample, wanted: Sample): void {
  if (policy.capabilities.seeded) expect(essence(sample)).toEqual(essence(wanted));
  const parted = sample.tokens.findIndex((token, i) => token !== wanted.tokens[i]);
  const common = parted < 0 ? sample.tokens.length : parted;
  expectNear(policy, sample.logprobs.subarray(0, common), wanted.logprobs.subarray(0, common));
  expect(sample.version).toBe(wanted.version);
}

/** What must not depend on the neighbours. */
export function essence({ tokens, logprobs, text, finishReason, version }: Sample) {
  return { tokens, logprobs, text, finishReason, version };
}

export function chainOf(prompt: Int32Array, { tokens }: Pick<Sample, "tokens">) {
  const all = Int32Array.from([...prompt, ...tokens]);
  return { tokens: all, learn: Uint8Array.from(all, (_, i) => (i >= prompt.length ? 1 : 0)) };
}

export function treeOf(prompt: Int32Array, sample: Sample): TokenTree {
  return buildTokenTree([chainOf(prompt, sample)]).tree;
}

/** A prompt whose tokens are all wanted. */
export function line(policy: Policy, skip = 1): TokenTree {
  const { tokens } = request(policy);
  return buildTokenTree([{ tokens, learn: Uint8Array.from(tokens, (_, i) => (i >= skip ? 1 : 0)) }]).tree;
}

export const ones = (numbers: Float32Array) => ({
  logprobs: Float32Array.from(numbers, (value) => (value === 0 ? 0 : -1)),
});

/** Adds the gradient of making line() likelier. */
export async function push(policy: Policy): Promise<void> {
  const pass = await policy.forward(line(policy));
  await policy.backward(pass, ones(pass.logprobs));
}

export async function move(policy: Policy): Promise<void> {
  await push(policy);
  await policy.step({ learningRate: 1e-2 });
}

export async function total(policy: Policy): Promise<number> {
  return (await policy.forward(line(policy), { grad: false })).logprobs.reduce((sum, value) => sum + value, 0);
}
