import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readVector } from "../../../test/read-vector.ts";
import { architectures, makeTinyModel, storiesDir, temporaryFolder } from "../../../test/tiny-model.ts";
import { ArrayVector } from "../array-vector.ts";
import { defaultSampling, type LoraOptions, type Policy, type Reference, type TokenTree } from "../policy.ts";
import type { TensorToWrite } from "../weights/index.ts";
import { loadNativePolicy } from "./load.ts";

const lora: LoraOptions = { rank: 3, alpha: 6, dropout: 0, targetModules: "all-linear" };

/** One sequence; every token but the first is wanted. */
function line(tokens: ArrayLike<number>): TokenTree {
  const ids = Int32Array.from(tokens);
  return {
    tokens: ids,
    nodeStart: Int32Array.of(0, ids.length),
    nodeParent: Int32Array.of(-1),
    wanted: Uint8Array.from(ids, (_, i) => (i > 0 ? 1 : 0)),
  };
}

const sequence = Int32Array.from({ length: 40 }, (_, i) => (i * 37 + 5) % 512);

async function scores(policy: Policy, tokens = sequence): Promise<Float32Array> {
  return (await policy.forward(line(tokens), { grad: false })).logprobs;
}

/** A step that raises the likelihood of the sequence, and its values where there is a head. */
async function learn(policy: Policy, tokens = sequence, learningRate = 1e-2): Promise<number> {
  const tree = line(tokens);
  const { valueHead: values } = policy.model;
  const pass = await policy.forward(tree, { values });
  await policy.backward(pass, {
    logprobs: Float32Array.from(tree.wanted, (wanted) => -wanted / tokens.length),
    ...(values && { values: new Float32Array(tokens.length).fill(-1 / tokens.length) }),
  });
  return (await policy.step({ learningRate, clipNorm: 1, weightDecay: 0.01 })).gradNorm;
}

/** ‖a − b‖ / ‖b‖ */
function relative(a: Float32Array, b: Float32Array): number {
  const norm = (values: Float32Array) => Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  return norm(a.map((value, i) => value - b[i]!)) / norm(b);
}

const mean = (values: Float32Array) => values.reduce((sum, value) => sum + value, 0) / (values.length - 1);

describe.each(architectures)("a native policy of %s", (architecture) => {
  it("records while sampling the log-probs that scoring gives, to the bit", async () => {
    const policy = await loadNativePolicy({ dir: await makeTinyModel(architecture) });
    const sampling = { ...defaultSampling, temperature: 0.8, maxTokens: 24 };
    const [sample] = await policy.sample([{ tokens: sequence, sampling, seed: 3 }]);
    const whole = Int32Array.of(...sequence, ...sample!.tokens);
    const pass = await policy.forward(line(whole), { grad: false, temperature: 0.8 });
    expect(pass.logprobs.slice(sequence.length)).toEqual(sample!.logprobs);
    await policy.close();
  });

  it.each([
    ["all weights", undefined],
    ["an adapter", lora],
  ] as const)("learns a sequence by training %s", async (_, adapter) => {
    const policy = await loadNativePolicy({
      dir: await makeTinyModel(architecture),
      ...(adapter && { lora: adapter }),
    });
    const before = mean(await scores(policy));
    for (let i = 0; i < 12; i++) expect(await learn(policy)).toBeGreaterThan(0);
    expect(mean(await scores(policy))).toBeGreaterThan(before + 0.5);
    await policy.close();
  });

  it("saves a model that loads back with the same scores", async () => {
    const policy = await loadNativePolicy({ dir: await makeTinyModel(architecture) });
    await policy.addValueHead();
    await learn(policy);
    const dir = await temporaryFolder();
    await policy.save(dir);
    const again = await loadNativePolicy({ dir });
    expect(await scores(again)).toEqual(await scores(policy));
    expect(again.model.valueHead).toBe(true);
    const values = async (p: Policy) => (await p.forward(line(sequence), { grad: false, values: true })).values;
    expect((await values(policy))!.some((value) => value !== 0)).toBe(true);
    expect(await values(again)).toEqual(await values(policy));
    await Promise.all([policy.close(), again.close()]);
  });

  it("saves an adapter that loads back with the same scores, and merges to nearly the same", async () => {
    const policy = await loadNativePolicy({ dir: await makeTinyModel(architecture), lora });
    const base = await scores(policy);
    for (let i = 0; i < 3; i++) await learn(policy);
    const trained = await scores(policy);
    expect(trained).not.toEqual(base);
    const [adapterDir, mergedDir] = [await temporaryFolder(), await temporaryFolder()];
    await policy.save(adapterDir);
    await policy.save(mergedDir, { merge: true });
    const adapter = await loadNativePolicy({ dir: adapterDir });
    expect(await scores(adapter)).toEqual(trained);
    expect(adapter.model.lora).toMatchObject({ rank: 3, alpha: 6 });
    const merged = await loadNativePolicy({ dir: mergedDir });
    (await scores(merged)).forEach((value, i) => {
      expect(Math.abs(value - trained[i]!)).toBeLessThan(1e-4);
    });
    await Promise.all([policy.close(), adapter.close(), merged.close()]);
  });

  it.each([
    ["all weights", undefined],
    ["an adapter", { ...lora, dropout: 0.2 }],
  ] as const)("goes on bit for bit from a snapshot of %s", async (_, adapter) => {
    const options = { dir: await makeTinyModel(architecture), ...(adapter && { lora: adapter }), seed: 9 };
    const policy = await loadNativePolicy(options);
    await policy.addValueHead();
    await learn(policy);
    await learn(policy);
    const dir = await temporaryFolder();
    await policy.snapshot(dir);
    const other = await loadNativePolicy(options);
    await other.restore(dir);
    for (let i = 0; i < 2; i++) expect(await learn(other)).toBe(await learn(policy));
    expect(await readVector(other, "parameters")).toEqual(await readVector(policy, "parameters"));
    await Promise.all([policy.close(), other.close()]);
  });

  it.each([
    ["all weights", undefined],
    ["an adapter", lora],
  ] as const)("keeps a reference while training %s, also through a file", async (_, adapter) => {
    const options = { dir: await makeTinyModel(architecture), ...(adapter && { lora: adapter }) };
    const policy = await loadNativePolicy(options);
    const before = await scores(policy);
    const start = await policy.reference();
    await learn(policy);
    const later = await policy.reference();
    const now = await scores(policy);
    await learn(policy);
    const check = async (...references: Reference[]) => {
      const [first, second] = await Promise.all(references.map((each) => each.logprobs(line(sequence))));
      expect(first).toEqual(before);
      expect(second).toEqual(now);
    };
    await check(start, later);
    expect(await scores(policy)).not.toEqual(now);
    // In another process, whose weights have moved meanwhile.
    const other = await loadNativePolicy(options);
    await learn(other);
    const read = async (reference: Reference) => {
      const dir = await temporaryFolder();
      await reference.save(dir);
      return other.reference({ from: dir });
    };
    const again = [await read(start), await read(later)];
    await check(...again);
    expect(again.map(({ version }) => version)).toEqual([start.version, later.version]);
    expect(await (await other.reference("base")).logprobs(line(sequence))).toEqual(before);
    await Promise.all([policy.close(), other.close()]);
  });
});

describe("a native policy", () => {
  it("loads the layouts found on the hub: no prefix, stored masks, a head that repeats the embedding", async () => {
    const bare = (tensors: TensorToWrite[]) => [
      ...tensors.map((tensor) => ({ ...tensor, name: tensor.name.replace(/^transformer\./, "") })),
      { name: "h.0.attn.bias", shape: [1, 1, 2, 2], data: new Float32Array(4) },
      { name: "h.0.attn.masked_bias", shape: [1], data: new Float32Array(1) },
    ];
    const repeated = (tensors: TensorToWrite[]) => {
      const embedding = tensors.find(({ name }) => name === "model.embed_tokens.weight")!;
      return [...tensors, { ...embedding, name: "lm_head.weight" }];
    };
    for (const [architecture, edit] of [
      ["gpt2", bare],
      ["qwen2", repeated],
    ] as const) {
      const plain = await loadNativePolicy({ dir: await makeTinyModel(architecture) });
      const other = await loadNativePolicy({ dir: await makeTinyModel(architecture, {}, { edit }) });
      expect(await scores(other)).toEqual(await scores(plain));
      await Promise.all([plain.close(), other.close()]);
    }
  });

  it("takes a snapshot back whatever the order of the adapter's options", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir, lora });
    const dir = await temporaryFolder();
    await policy.snapshot(dir);
    const { rank, alpha, dropout, targetModules } = lora;
    const other = await loadNativePolicy({ dir: storiesDir, lora: { targetModules, dropout, alpha, rank }, seed: 5 });
    expect(await readVector(other, "parameters")).not.toEqual(await readVector(policy, "parameters"));
    await other.restore(dir);
    expect(await readVector(other, "parameters")).toEqual(await readVector(policy, "parameters"));
    await Promise.all([policy.close(), other.close()]);
  });

  it("writes the story that llama2.c's own test expects", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir });
    const sampling = { ...defaultSampling, temperature: 0, maxTokens: 200 };
    const [sample] = await policy.sample([{ tokens: Int32Array.of(1), sampling, seed: 0 }]);
    const readme = await readFile(join(storiesDir, "README.md"), "utf8");
    const story = readme
      .split("\n")
      .filter((text) => text.startsWith("> "))
      .map((text) => text.slice(2));
    expect(sample!.text.trim()).toBe(story.join("\n"));
    expect(sample!.tokens.length).toBe(200);
    await policy.close();
  });

  it("describes itself", async () => {
    const policy = await loadNativePolicy({
      dir: storiesDir,
      name: "stories",
      lora: { ...lora, targetModules: ["q_proj"] },
    });
    expect(policy.model).toMatchObject({
      name: "stories",
      architecture: "llama",
      parameters: 260_032,
      trainableParameters: 5 * 3 * (64 + 64),
      contextLength: 512,
      vocabSize: 512,
      valueHead: false,
      stub: false,
    });
    await policy.addValueHead();
    expect(policy.model.trainableParameters).toBe(5 * 3 * 128 + 65);
    await policy.close();
  });

  it("moves along a vector of its trainable parameters", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir, lora: { ...lora, targetModules: ["v_proj"] } });
    const before = await readVector(policy, "parameters");
    expect(before.length).toBe(policy.model.trainableParameters);
    await policy.moveTo(new ArrayVector(before.map((value, i) => value + (i % 2 ? 0.5 : -0.25))));
    const after = await readVector(policy, "parameters");
    expect(after).toEqual(before.map((value, i) => value + (i % 2 ? 0.5 : -0.25)));
    await policy.close();
  });

  it("computes a shared prefix once and scores the same as separate sequences", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir });
    const [a, b] = [Int32Array.of(7, 8, 9, 10), Int32Array.of(9, 30, 31)];
    const tree: TokenTree = {
      tokens: Int32Array.of(...sequence, ...a, ...b),
      nodeStart: Int32Array.of(0, sequence.length, sequence.length + a.length, sequence.length + a.length + b.length),
      nodeParent: Int32Array.of(-1, 0, 0),
      wanted: new Uint8Array(sequence.length + a.length + b.length).fill(1),
    };
    const { logprobs } = await policy.forward(tree, { grad: false });
    const n = sequence.length;
    expect(logprobs.slice(n, n + a.length)).toEqual((await scores(policy, Int32Array.of(...sequence, ...a))).slice(n));
    expect(logprobs.slice(n + a.length)).toEqual((await scores(policy, Int32Array.of(...sequence, ...b))).slice(n));
    await policy.close();
  });

  it("scores wanted tokens alone, and learns from nothing else", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir });
    const all = await scores(policy);
    const tree = line(sequence);
    tree.wanted.fill(0, 0, 30);
    const masked = await policy.forward(tree);
    expect(masked.logprobs).toEqual(all.map((value, i) => (i < 30 ? 0 : value)));
    // Derivatives where nothing was wanted must not count.
    await policy.backward(masked, { logprobs: new Float32Array(sequence.length).fill(1) });
    const gradient = await readVector(policy, "gradients");
    await policy.zeroGradients();
    const whole = await policy.forward(line(sequence));
    await policy.backward(whole, { logprobs: Float32Array.from(tree.wanted) });
    expect(relative(gradient, await readVector(policy, "gradients"))).toBeLessThan(1e-5);
    await policy.close();
  });

  it("keeps several passes for backward, in any order, while it samples", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir });
    const inputs = [sequence.slice(0, 12), sequence.slice(5, 33)];
    const derivative = (tokens: Int32Array) => ({ logprobs: Float32Array.from(tokens, (_, i) => Math.sin(i)) });
    const gradient = async (order: readonly number[]) => {
      await policy.zeroGradients();
      const passes = await Promise.all(inputs.map((tokens) => policy.forward(line(tokens))));
      const request = { tokens: sequence, sampling: { ...defaultSampling, maxTokens: 30 }, seed: 1 };
      const sampled = policy.sample([request, { ...request, seed: 2 }]);
      for (const i of order) await policy.backward(passes[i]!, derivative(inputs[i]!));
      await sampled;
      return readVector(policy, "gradients");
    };
    expect(relative(await gradient([1, 0]), await gradient([0, 1]))).toBeLessThan(1e-5);
    await policy.close();
  });

  it("trains the value head alone when asked, and leaves the model as it was", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir });
    await policy.addValueHead();
    const before = await scores(policy);
    const error = async () => {
      const pass = await policy.forward(line(sequence), { values: true });
      const values = pass.values!.map((value) => value - 1);
      await policy.backward(pass, { values, valuesIntoTrunk: false });
      await policy.step({ learningRate: 0.05, scope: "value" });
      return values.reduce((sum, value) => sum + value * value, 0);
    };
    const first = await error();
    for (let i = 0; i < 10; i++) await error();
    expect(await error()).toBeLessThan(first / 2);
    expect(await scores(policy)).toEqual(before);
    await policy.close();
  });

  it("gives hidden states and the entropy of what it drew from", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir });
    const pass = await policy.forward(line(sequence), { grad: false, hidden: true, entropy: true });
    expect(pass.hidden!.length).toBe(sequence.length * 64);
    expect(pass.entropy![0]).toBe(0);
    for (const value of pass.entropy!.slice(1)) {
      expect(value).toBeGreaterThan(0);
      expect(value).toBeLessThan(Math.log(512));
    }
    await policy.close();
  });

  it("moves nothing and says so when a gradient is not finite", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir });
    const before = await scores(policy);
    const pass = await policy.forward(line(sequence));
    await policy.backward(pass, { logprobs: new Float32Array(sequence.length).fill(Number.NaN) });
    expect((await policy.step({ learningRate: 0.1 })).applied).toBe(false);
    expect(await scores(policy)).toEqual(before);
    await learn(policy);
    expect(await scores(policy)).not.toEqual(before);
    await policy.close();
  });
});
