import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readVector } from "../../../test/read-vector.ts";
import { makeTinyModel, storiesDir, temporaryFolder } from "../../../test/tiny-model.ts";
import { ArrayVector } from "../array-vector.ts";
import { defaultSampling, type LoraOptions, type Sample, type TokenTree } from "../policy.ts";
import { loadNativePolicy } from "./load.ts";
import { planFolder } from "./memory.ts";
import type { NativePolicy } from "./native-policy.ts";

const lora: LoraOptions = { rank: 3, alpha: 6, dropout: 0, targetModules: "all-linear" };
const sequence = Int32Array.from({ length: 40 }, (_, i) => (i * 37 + 5) % 512);
const tree: TokenTree = {
  tokens: sequence,
  nodeStart: Int32Array.of(0, 40),
  nodeParent: Int32Array.of(-1),
  wanted: Uint8Array.from(sequence, (_, i) => (i > 0 ? 1 : 0)),
};

const scores = async (policy: NativePolicy) => (await policy.forward(tree, { grad: false })).logprobs;

async function learn(policy: NativePolicy, rate = 0.02): Promise<void> {
  const { valueHead: values } = policy.model;
  const pass = await policy.forward(tree, { values });
  await policy.backward(pass, {
    logprobs: Float32Array.from(tree.wanted, (wanted) => -wanted / 40),
    ...(values && { values: new Float32Array(tree.tokens.length).fill(-1 / 40) }),
  });
  await policy.step({ learningRate: rate });
}

const prompts = Array.from({ length: 16 }, (_, i) =>
  Int32Array.from({ length: 6 }, (_, j) => (i * 31 + j * 7 + 3) % 512),
);
const greedy = { ...defaultSampling, temperature: 0, maxTokens: 12 };
const requests = prompts.map((tokens, seed) => ({ tokens, sampling: greedy, seed }));
const words = ({ tokens, logprobs }: Sample) => JSON.stringify([[...tokens], [...logprobs]]);

describe.each([
  ["all weights", undefined, undefined],
  ["an adapter", lora, undefined],
  ["all weights, with room for one version only", undefined, 0],
] as const)("replies during changes of %s", (_, adapter, versionBytes) => {
  it("are of the old weights or the new, never of a mixture, and say which", async () => {
    const policy = await loadNativePolicy({
      dir: await makeTinyModel("llama"),
      ...(adapter && { lora: adapter }),
      ...(versionBytes !== undefined && { versionBytes }),
    });
    const dirs = [await temporaryFolder(), await temporaryFolder()] as const;
    /** What each set of weights replies to each prompt. */
    const replies: string[][] = [];
    for (const dir of dirs) {
      for (let i = 0; i < 3; i++) await learn(policy);
      await policy.snapshot(dir);
      replies.push((await policy.sample(requests)).map(words));
    }
    expect(replies[0]!.filter((reply, i) => reply === replies[1]![i])).toEqual([]);
    /** Which weights a version was. */
    const weightsOf = new Map([[policy.version, 1]]);
    let changing = true;
    const samples: { prompt: number; sample: Sample }[] = [];
    const client = async (prompt: number) => {
      while (changing || samples.length < 2000) {
        const [sample] = await policy.sample([requests[prompt]!]);
        samples.push({ prompt, sample: sample! });
      }
    };
    const changes = async () => {
      for (let round = 0; round < 12 || samples.length < 2000; round++) {
        const which = round % 2;
        const { version } = await (round % 3 === 0 ? policy.load(dirs[which]!) : policy.restore(dirs[which]!));
        weightsOf.set(version, which);
        // So that both are heard of.
        const [start, heard] = [performance.now(), samples.length];
        while (performance.now() - start < 1000 && samples.length < heard + 60)
          await new Promise((r) => setTimeout(r, 1));
      }
      changing = false;
    };
    await Promise.all([changes(), ...prompts.map((_, prompt) => client(prompt))]);
    expect(samples.length).toBeGreaterThanOrEqual(2000);
    const counts = [0, 0];
    for (const { prompt, sample } of samples) {
      const which = weightsOf.get(sample.version!)!;
      counts[which]!++;
      if (words(sample) !== replies[which]![prompt]) expect(words(sample)).toBe(replies[which]![prompt]);
    }
    expect(Math.min(...counts)).toBeGreaterThan(200);
    expect(policy.stats().drains > 0).toBe(versionBytes === 0);
    expect(policy.stats().versions).toBe(1);
    await policy.close();
  });
});

describe("load()", () => {
  it.each([
    ["a model", undefined],
    ["an adapter", lora],
  ] as const)("puts in %s that was saved, or a snapshot, as one change", async (_, adapter) => {
    const options = { dir: await makeTinyModel("gpt2"), ...(adapter && { lora: adapter }) };
    const source = await loadNativePolicy(options);
    await source.addValueHead();
    for (let i = 0; i < 2; i++) await learn(source);
    const [saved, snapshot] = [await temporaryFolder(), await temporaryFolder()];
    await source.save(saved);
    await source.snapshot(snapshot);
    const loaded = new Set<string>();
    for (const dir of [saved, snapshot]) {
      const policy = await loadNativePolicy(options);
      const changed = await policy.load(dir);
      expect(changed).toEqual({ version: policy.version, drained: false });
      // Named by what was loaded: the same from either folder, and not by how it came about.
      loaded.add(changed.version);
      expect(await scores(policy)).toEqual(await scores(source));
      expect(policy.model.valueHead).toBe(true);
      const values = async (of: NativePolicy) => (await of.forward(tree, { grad: false, values: true })).values;
      expect(await values(policy)).toEqual(await values(source));
      await policy.close();
    }
    expect(loaded.size).toBe(1);
    await source.close();
  });

  it.each([
    ["all weights", undefined, undefined],
    ["an adapter", lora, undefined],
    ["all weights, with room for one version only", undefined, 0],
  ] as const)("leaves nothing of the optimiser that trained %s", async (_, adapter, versionBytes) => {
    const options = {
      dir: await makeTinyModel("llama"),
      ...(adapter && { lora: adapter }),
      ...(versionBytes !== undefined && { versionBytes }),
    };
    const [used, fresh] = [await loadNativePolicy(options), await loadNativePolicy(options)];
    await learn(used);
    const saved = await temporaryFolder();
    await used.save(saved);
    for (let i = 0; i < 5; i++) await learn(used);
    const files: Buffer[] = [];
    for (const policy of [used, fresh]) {
      await policy.load(saved);
      await learn(policy);
      const snapshot = await temporaryFolder();
      await policy.snapshot(snapshot);
      files.push(
        await readFile(join(snapshot, "policy-00001-of-00001.safetensors")),
        await readFile(join(snapshot, "policy.json")),
      );
      await policy.close();
    }
    const [weights, state, freshWeights, freshState] = files;
    expect(weights!.equals(freshWeights!)).toBe(true);
    expect(`${state}`).toBe(`${freshState}`);
  });

  it("keeps the optimiser of a value head that the folder does not hold", async () => {
    const dir = await makeTinyModel("llama");
    const [policy, same] = [await loadNativePolicy({ dir }), await loadNativePolicy({ dir })];
    const learnValues = async (of: NativePolicy) => {
      const pass = await of.forward(tree, { values: true });
      await of.backward(pass, { values: pass.values!.map((value) => value - 1), valuesIntoTrunk: false });
      await of.step({ learningRate: 0.05, scope: "value" });
    };
    for (const each of [policy, same]) {
      await each.addValueHead();
      await learnValues(each);
      await learnValues(each);
    }
    await policy.load(dir);
    for (const each of [policy, same]) await learnValues(each);
    expect(await readVector(policy, "parameters")).toEqual(await readVector(same, "parameters"));
    await Promise.all([policy.close(), same.close()]);
  });

  it("refuses what does not fit and changes nothing", async () => {
    const dir = await makeTinyModel("llama");
    const [plain, adapted] = [await loadNativePolicy({ dir }), await loadNativePolicy({ dir, lora })];
    const before = await scores(plain);
    const adapterDir = await temporaryFolder();
    await adapted.save(adapterDir);
    await expect(plain.load(adapterDir)).rejects.toMatchObject({ code: "CHECKPOINT_MISMATCH" });
    await expect(adapted.load(dir)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    await expect(plain.load(storiesDir)).rejects.toMatchObject({ code: "CHECKPOINT_MISMATCH" });
    await expect(plain.load(await temporaryFolder())).rejects.toMatchObject({ code: "MODEL_NOT_FOUND" });
    const other = await loadNativePolicy({ dir, lora: { ...lora, alpha: 7 } });
    await expect(other.load(adapterDir)).rejects.toMatchObject({ code: "CHECKPOINT_MISMATCH" });
    const snapshot = await temporaryFolder();
    await plain.snapshot(snapshot);
    await writeFile(join(snapshot, "policy-00001-of-00001.safetensors"), "short");
    await expect(plain.load(snapshot)).rejects.toMatchObject({ code: "CHECKPOINT_INVALID" });
    const { version } = plain;
    expect(await scores(plain)).toEqual(before);
    expect(plain.version).toBe(version);
    await Promise.all([plain.close(), adapted.close(), other.close()]);
  });

  it.each([
    ["all weights", undefined],
    ["an adapter", { ...lora, dropout: 0.1 }],
  ] as const)("is not torn by what happens during a snapshot of %s", async (_, adapter) => {
    const policy = await loadNativePolicy({ dir: await makeTinyModel("llama"), ...(adapter && { lora: adapter }) });
    const [saved, alone, beside] = [await temporaryFolder(), await temporaryFolder(), await temporaryFolder()];
    await policy.save(saved);
    for (let i = 0; i < 3; i++) await learn(policy);
    await policy.snapshot(alone);
    const pass = await policy.forward(tree);
    await policy.backward(pass, { logprobs: Float32Array.from(tree.wanted, (wanted) => -wanted) });
    const count = adapter ? JSON.parse(await readFile(join(alone, "policy.json"), "utf8")).dropoutPasses + 1 : 0;
    const { version } = policy;
    await Promise.all([
      policy.snapshot(beside),
      policy.forward(tree),
      policy.step({ learningRate: 0.02 }),
      policy.addValueHead(),
      policy.moveTo(new ArrayVector(new Float32Array(policy.model.trainableParameters).fill(0.01))).catch(() => {}),
      policy.load(saved),
      policy.step({ learningRate: 0.02 }),
    ]);
    expect(policy.version).not.toBe(version);
    const read = (dir: string, name: string) => readFile(join(dir, name));
    expect(
      (await read(beside, "policy-00001-of-00001.safetensors")).equals(
        await read(alone, "policy-00001-of-00001.safetensors"),
      ),
    ).toBe(true);
    const [state, stateAlone] = [await read(beside, "policy.json"), await read(alone, "policy.json")].map((json) =>
      JSON.parse(json.toString()),
    );
    expect(state).toEqual({ ...stateAlone, dropoutPasses: count });
    await policy.close();
  });

  it("writes one version to a file while training goes on", async () => {
    const policy = await loadNativePolicy({ dir: await makeTinyModel("llama") });
    await learn(policy);
    const dir = await temporaryFolder();
    const before = await scores(policy);
    await Promise.all([
      policy.save(dir),
      ...Array.from({ length: 5 }, (_, i) =>
        policy.moveTo(new ArrayVector(new Float32Array(policy.model.trainableParameters).fill(0.01 * (i + 1)))),
      ),
    ]);
    const saved = await loadNativePolicy({ dir });
    expect(await scores(saved)).toEqual(before);
    expect(await scores(policy)).not.toEqual(before);
    await Promise.all([policy.close(), saved.close()]);
  });
});

describe("references", () => {
  it("are several at once: the start, a checkpoint, the base, an average", async () => {
    const dir = await makeTinyModel("qwen2");
    const policy = await loadNativePolicy({ dir, lora });
    const base = await scores(policy);
    await learn(policy);
    const start = await policy.reference();
    const atStart = await scores(policy);
    const average = await policy.reference();
    const checkpoint = await temporaryFolder();
    await learn(policy);
    await policy.save(checkpoint);
    const atCheckpoint = await scores(policy);
    await learn(policy);
    const [saved, model, bare] = [
      await policy.reference({ from: checkpoint }),
      await policy.reference({ from: dir }),
      await policy.reference("base"),
    ];
    expect(await start.logprobs(tree)).toEqual(atStart);
    expect(await saved.logprobs(tree)).toEqual(atCheckpoint);
    for (const each of [model, bare]) expect(await each.logprobs(tree)).toEqual(base);
    await average.blend(0);
    expect(await average.logprobs(tree)).toEqual(await scores(policy));
    expect(new Set([start, saved, model, average].map(({ version }) => version)).size).toBe(4);
    for (const each of [start, saved, model, bare, average]) await each.close();
    await expect(start.logprobs(tree)).rejects.toMatchObject({ code: "POLICY_CLOSED" });
    await policy.close();
  });

  it("of a fully trained model can be any checkpoint", async () => {
    const policy = await loadNativePolicy({ dir: await makeTinyModel("mistral") });
    await policy.addValueHead();
    const snapshot = await temporaryFolder();
    await learn(policy);
    const then = await scores(policy);
    await policy.snapshot(snapshot);
    await learn(policy);
    expect(await (await policy.reference({ from: snapshot })).logprobs(tree)).toEqual(then);
    await policy.close();
  });
});

it("names weights by what they are and by what was done to them, the same in every process", async () => {
  const dir = await makeTinyModel("llama");
  const [one, two] = [await loadNativePolicy({ dir }), await loadNativePolicy({ dir, threads: 1 })];
  const opened = one.version;
  expect([two.version, one.model.digest]).toEqual([opened, two.model.digest]);
  const versionOf = async (policy: NativePolicy) => (await policy.sample([requests[0]!]))[0]!.version;
  expect(await versionOf(one)).toBe(opened);
  await learn(one);
  expect(one.version).not.toBe(opened);
  expect(await versionOf(one)).toBe(one.version);
  await learn(two);
  expect(two.version).toBe(one.version);
  // A snapshot takes its name along, so that a run that is resumed goes on with the names it would have had.
  const snapshot = await temporaryFolder();
  await one.snapshot(snapshot);
  const three = await loadNativePolicy({ dir });
  await three.restore(snapshot);
  for (const each of [one, two, three]) await learn(each);
  expect([two.version, three.version]).toEqual([one.version, one.version]);
  await two.step({ learningRate: 1e-3 });
  await one.moveTo(await one.vector("parameters"));
  expect(new Set([one, two, three].map(({ version }) => version)).size).toBe(3);
  await Promise.all([one.close(), two.close(), three.close()]);
});

it("plans the memory of a model from its folder, and of one that is open", async () => {
  const options = { tokenBudget: 1000, recompute: false, reference: true };
  const whole = await planFolder(storiesDir, options);
  const weights = 4 * 260_032;
  expect(whole).toMatchObject({ parameters: 260_032, weights, optimiser: 3 * weights, reference: weights });
  const { activations, cache, saving, keptActivations } = whole;
  // The embedding of 512 tokens by 64, with its two moments.
  expect(saving).toBe(3 * 4 * 512 * 64);
  expect(whole.total).toBe(weights + 3 * weights + weights + activations + cache + saving + keptActivations);
  expect(keptActivations).toBeGreaterThan(0);
  expect(await planFolder(storiesDir, { ...options, scorer: true })).toMatchObject({ scorer: weights });
  // Without its adapter the model is there anyway.
  expect(await planFolder(storiesDir, { ...options, lora, scorer: true })).toMatchObject({ scorer: 0 });
  const part = await planFolder(storiesDir, { ...options, lora, recompute: true });
  expect(part.activations).toBeLessThan(activations / 10);
  // Who computes twice to save memory has none to spare.
  expect(part.keptActivations).toBe(0);
  expect(part.saving).toBe(3 * 4 * lora.rank * 172);
  const policy = await loadNativePolicy({ dir: storiesDir, lora, cacheBytes: 5, activationBytes: 7 });
  const trained = 4 * policy.model.trainableParameters;
  expect(part).toMatchObject({ weights: weights + trained, optimiser: 3 * trained, reference: trained });
  expect(policy.plan({ ...options, reference: false })).toMatchObject({
    optimiser: 3 * trained,
    reference: 0,
    cache: 5,
    keptActivations: 7,
  });
  await policy.close();
  // With dropout a training pass computes something else, whatever room there is.
  const dropping = await loadNativePolicy({ dir: storiesDir, lora: { ...lora, dropout: 0.1 }, activationBytes: 7 });
  expect(dropping.plan(options).keptActivations).toBe(0);
  await dropping.close();
});
