/** The torch engine against the embedded one: the same numbers from the same weights, on the CPU in f32. Needs STATESET_PYTHON. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { starterModelPath } from "@stateset-agents/starter-model";
import { afterEach, describe, expect, it } from "vitest";
import { buildTokenTree, type TreeChain } from "../../src/conversation/token-tree.ts";
import { loadNativePolicy } from "../../src/policy/native/load.ts";
import { defaultSampling, type LoraOptions, type Policy, type TokenTree } from "../../src/policy/policy.ts";
import { openWeights } from "../../src/policy/weights/index.ts";
import { createRandom } from "../../src/random.ts";
import { readVector } from "../read-vector.ts";
import { architectures, makeTinyModel, plainTargets, temporaryFolder } from "../tiny-model.ts";
import { python, TorchWorkers } from "../torch-workers.ts";

const lora: LoraOptions = { rank: 3, alpha: 5, dropout: 0, targetModules: "all-linear" };
const adam = { learningRate: 1e-3, beta1: 0.9, beta2: 0.99, epsilon: 1e-6, weightDecay: 0.1 };

const opened: Policy[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((policy) => policy.close()));
});

/** Two prompts with three replies each: what several share is there once. */
function chainsOf(vocabSize: number): TreeChain[] {
  const random = createRandom(5);
  const draw = (length: number) => Array.from({ length }, () => 3 + random.below(vocabSize - 3));
  return [draw(9), draw(6)].flatMap((prompt) =>
    [4, 7, 11].map((length) => {
      const tokens = Int32Array.of(...prompt, ...draw(length));
      return { tokens, learn: Uint8Array.from(tokens, (_, i) => (i >= prompt.length ? 1 : 0)) };
    }),
  );
}

/** A loss that asks for everything: with weights that differ, so that no two errors cancel. */
async function learn(policy: Policy, tree: TokenTree): Promise<void> {
  const pass = await policy.forward(tree, { entropy: true, values: true, temperature: 0.9 });
  const slope = (scale: number) =>
    pass.logprobs.map((logprob, i) => (logprob === 0 ? 0 : (scale * ((i % 5) - 1.5)) / 40));
  await policy.backward(pass, { logprobs: slope(1), entropy: slope(-0.3), values: slope(0.5) });
  expect((await policy.step(adam)).applied).toBe(true);
}

interface State {
  weights: Map<string, Float32Array>;
  moments: Map<string, Float32Array>;
}

/** What is trained, by the names of files, which both engines use. */
async function stateOf(policy: Policy): Promise<State> {
  const dir = temporaryFolder();
  await policy.snapshot(dir);
  const state: State = { weights: new Map(), moments: new Map() };
  for (const file of (await readdir(dir)).filter((name) => name.endsWith(".safetensors"))) {
    const stored = await openWeights(join(dir, file));
    for (const name of stored.names) {
      if (name.endsWith(":m")) state.moments.set(name.slice(0, -2), await stored.read(name));
      else if (!name.endsWith(":v")) state.weights.set(name, await stored.read(name));
    }
    await stored.close();
  }
  return state;
}

/** The gradient of the last step: what AdamW's mean of gradients took in. */
const gradient = (before: State, after: State) =>
  mapped(after.moments, (name, m) =>
    m.map((value, i) => (value - adam.beta1 * before.moments.get(name)![i]!) / (1 - adam.beta1)),
  );

const moved = (before: State, after: State) =>
  mapped(after.weights, (name, weight) => weight.map((value, i) => value - before.weights.get(name)![i]!));

function mapped(of: Map<string, Float32Array>, change: (name: string, data: Float32Array) => Float32Array) {
  return new Map([...of].map(([name, data]) => [name, change(name, data)] as const));
}

const normOf = (data: Float32Array) => Math.sqrt(data.reduce((sum, value) => sum + value * value, 0));

/**
 * How far apart ten steps of AdamW may move a tensor; seen are 1e-5, and 2e-3 of biases of keys. Softmax does not see what all keys share: their
 * gradients are next to nothing but rounding (about 1e-9; with rotary positions those of the pairs that hardly turn), and AdamW, which divides by
 * their own size, has them move by chance: 10 steps · 1e-3 · 1e-9 / ε = 1e-5 each. Without ε = 1e-6 it would be whole steps.
 */
const moveLimit = (name: string) => (/(c_attn|k_proj)\.bias$/.test(name) ? 2e-2 : 1e-3);

/** ‖a − b‖ ≤ limit·‖b‖ for each tensor; those that are next to nothing in all of them may differ by as little. */
function expectNear(
  a: Map<string, Float32Array>,
  b: Map<string, Float32Array>,
  limit: (name: string) => number = () => 1e-3,
): void {
  expect([...a.keys()].sort()).toEqual([...b.keys()].sort());
  const floor = 1e-3 * Math.max(...[...b.values()].map(normOf));
  for (const [name, data] of a) {
    const wanted = b.get(name)!;
    const difference = normOf(data.map((value, i) => value - wanted[i]!));
    expect(difference / Math.max(normOf(wanted), floor), name).toBeLessThan(limit(name));
  }
}

function expectClose(a: Float32Array, b: Float32Array, limit: number): void {
  expect(a).toHaveLength(b.length);
  expect(a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i]!)), 0)).toBeLessThan(limit);
}

describe.skipIf(!python).each([1, 2])("the torch engine and the embedded one, %i rank(s)", (ranks) => {
  const workers = new TorchWorkers(ranks);
  const models = [...architectures, "starter"] as const;

  describe.each(models)("%s", (model) => {
    it.each([
      ["all weights", undefined],
      ["an adapter", model === "starter" ? lora : { ...lora, targetModules: plainTargets(model) }],
    ])("score, differentiate, step and speak alike with %s", async (_, adapter) => {
      const dir = model === "starter" ? starterModelPath : await makeTinyModel(model);
      const native = await loadNativePolicy({ dir, lora: adapter, precision: "f32" });
      opened.push(native);
      const torch = await workers.open({ dir, lora: adapter });
      opened.push(torch);
      const { tree } = buildTokenTree(chainsOf(native.model.vocabSize));
      // Away from the beginning, where adapters and values are zero.
      await native.addValueHead();
      for (let i = 0; i < 3; i++) await learn(native, tree);
      const start = temporaryFolder();
      await native.snapshot(start);
      await torch.restore(start);
      expect(torch.version).toBe(native.version);
      expect(torch.model).toMatchObject({
        trainableParameters: native.model.trainableParameters,
        vocabSize: native.model.vocabSize,
        endTokens: native.model.endTokens,
        valueHead: true,
      });

      const wants = { grad: false, entropy: true, values: true, temperature: 0.7 };
      const [ours, theirs] = [await torch.forward(tree, wants), await native.forward(tree, wants)];
      expectClose(ours.logprobs, theirs.logprobs, 1e-4);
      expectClose(ours.entropy!, theirs.entropy!, 1e-4);
      expectClose(ours.values!, theirs.values!, 1e-4);

      const tokens = tree.tokens.slice(0, 9);
      const request = { tokens, sampling: { ...defaultSampling, temperature: 0, maxTokens: 24 }, seed: 1 };
      const [[said], [wanted]] = [await torch.sample([request]), await native.sample([request])];
      expect([...said!.tokens]).toEqual([...wanted!.tokens]);
      expectClose(said!.logprobs, wanted!.logprobs, 1e-4);

      const before = await stateOf(native);
      for (const policy of [torch, native]) await learn(policy, tree);
      const [one, other] = [await stateOf(torch), await stateOf(native)];
      expectNear(gradient(before, one), gradient(before, other));
      for (let i = 0; i < 9; i++) for (const policy of [torch, native]) await learn(policy, tree);
      expectNear(moved(before, await stateOf(torch)), moved(before, await stateOf(native)), moveLimit);
      expectClose((await torch.forward(tree, wants)).logprobs, (await native.forward(tree, wants)).logprobs, 1e-3);
    });
  });

  it.each(["gpt2", "mistral", "qwen3"] as const)("gives %s a tree as it gives it separate sequences", async (model) => {
    const policy = await workers.open({ dir: await makeTinyModel(model) });
    opened.push(policy);
    await policy.addValueHead();
    const chains = chainsOf(policy.model.vocabSize);
    // A reply that goes on after another one: a branch of a branch.
    const [first] = chains;
    chains.push({
      tokens: Int32Array.of(...first!.tokens, 7, 8, 9),
      learn: Uint8Array.of(...first!.learn.map(() => 0), 1, 1, 1),
    });
    const { tree, positions } = buildTokenTree(chains);
    const wants = { entropy: true, values: true, temperature: 0.8 };
    const whole = await policy.forward(tree, wants);
    const slopes = whole.logprobs.map((logprob, i) => (logprob === 0 ? 0 : ((i % 5) - 1.5) / 40));
    await policy.backward(whole, { logprobs: slopes, entropy: slopes });
    const together = await readVector(policy, "gradients");
    await policy.zeroGradients();
    for (const [i, { tokens, learn }] of chains.entries()) {
      const alone = {
        tokens,
        nodeStart: Int32Array.of(0, tokens.length),
        nodeParent: Int32Array.of(-1),
        wanted: learn,
      };
      const pass = await policy.forward(alone, wants);
      const at = (of: Float32Array) => of.filter((_, t) => learn[t] === 1);
      const inTree = (of: Float32Array) => Float32Array.from(positions[i]!, (place) => of[place]!);
      for (const score of ["logprobs", "entropy"] as const)
        expectClose(at(pass[score]!), at(inTree(whole[score]!)), 1e-5);
      expectClose(pass.values!, inTree(whole.values!), 1e-5);
      const own = inTree(slopes).map((slope, t) => slope * learn[t]!);
      await policy.backward(pass, { logprobs: own, entropy: own });
    }
    const apart = await readVector(policy, "gradients");
    expect(normOf(apart.map((value, i) => value - together[i]!)) / normOf(together)).toBeLessThan(1e-5);
  });
});
