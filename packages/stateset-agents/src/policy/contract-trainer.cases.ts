/** What every Policy that learns promises; part of contract.cases.ts. */
import { expect, it } from "vitest";
import { readVector } from "../../test/read-vector.ts";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { buildTokenTree } from "../conversation/token-tree.ts";
import {
  chainOf,
  expectMovedAlike,
  expectNear,
  line,
  move,
  normOf,
  ones,
  push,
  request,
  total,
} from "./contract-parts.cases.ts";
import type { Policy } from "./policy.ts";

export function describeTrainer(policyOf: () => Promise<Policy>): void {
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
    expect(normOf(one.map((value, i) => value - other[i]!))).toBeLessThan(1e-5 * normOf(one));
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
    const start = await readVector(policy, "parameters");
    const dir = temporaryFolder();
    await policy.snapshot(dir);
    const other = await policyOf();
    await move(other);
    await move(other);
    const { version } = await other.restore(dir);
    expect(version).toBe(policy.version);
    for (const each of [policy, other]) await move(each);
    expectMovedAlike(policy, [await readVector(other, "parameters"), await readVector(policy, "parameters")], start);
    if (policy.capabilities.exact) expect(other.version).toBe(policy.version);
  });

  it("takes in saved weights as one change", async () => {
    const policy = await policyOf();
    await move(policy);
    const start = await readVector(policy, "parameters");
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
    expectMovedAlike(policy, [await readVector(other, "parameters"), await readVector(policy, "parameters")], start);
  });
}
