import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Model } from "@stateset-agents/engine";
import { afterEach, describe, expect, it, vi } from "vitest";
import { readVector } from "../../../test/read-vector.ts";
import { makeTinyModel, temporaryFolder } from "../../../test/tiny-model.ts";
import { ArrayVector } from "../array-vector.ts";
import type { LoraOptions, Reference, TokenTree } from "../policy.ts";
import { openWeights, writeSafetensors } from "../weights/index.ts";
import { loadNativePolicy, type NativePolicyOptions } from "./load.ts";
import type { NativePolicy } from "./native-policy.ts";

/** The engine's models, by the order in which policies were opened: what they hold tells what was leaked. */
const models: Model[] = [];
vi.mock("@stateset-agents/engine", async (original) => {
  const engine = await original<typeof import("@stateset-agents/engine")>();
  const openModel: typeof engine.openModel = async (...args) => {
    const model = await engine.openModel(...args);
    models.push(model);
    return model;
  };
  return { ...engine, openModel };
});

/** Bytes that were asked for before anything was reserved. */
const foreseen: number[] = [];
vi.mock("./memory.ts", async (original) => {
  const memory = await original<typeof import("./memory.ts")>();
  const foresee: typeof memory.foresee = (bytes, ...rest) => {
    foreseen.push(bytes);
    memory.foresee(bytes, ...rest);
  };
  return { ...memory, foresee };
});

const open: NativePolicy[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((policy) => policy.close()));
  models.length = 0;
});

async function policyOf(options: NativePolicyOptions): Promise<NativePolicy> {
  const policy = await loadNativePolicy(options);
  open.push(policy);
  return policy;
}

const held = async () => (await models[0]!.memory()).retained;

const lora: LoraOptions = { rank: 3, alpha: 6, dropout: 0, targetModules: "all-linear" };
const kinds = [
  ["all weights", undefined],
  ["an adapter", lora],
] as const;
const withLora = (adapter: LoraOptions | undefined) => (adapter ? { lora: adapter } : {});

const tokens = Int32Array.from({ length: 30 }, (_, i) => (i * 37 + 5) % 512);
const tree: TokenTree = {
  tokens,
  nodeStart: Int32Array.of(0, 30),
  nodeParent: Int32Array.of(-1),
  wanted: Uint8Array.from(tokens, (_, i) => (i > 0 ? 1 : 0)),
};
const scores = async (policy: NativePolicy) => (await policy.forward(tree, { grad: false })).logprobs;

async function addGradients(policy: NativePolicy): Promise<void> {
  const pass = await policy.forward(tree);
  await policy.backward(pass, { logprobs: Float32Array.from(tree.wanted, (wanted) => -wanted / 30) });
}

const step = (policy: NativePolicy) => policy.step({ learningRate: 0.02 });

async function learn(policy: NativePolicy): Promise<void> {
  await addGradients(policy);
  await step(policy);
}

async function again(policy: NativePolicy, reference: Reference): Promise<Reference> {
  const dir = await temporaryFolder();
  await reference.save(dir);
  return policy.reference({ from: dir });
}

describe.each(kinds)("a reference to %s", (_, adapter) => {
  it("is of the weights that were present when it was asked for, by name too", async () => {
    const policy = await policyOf({ dir: await makeTinyModel("llama"), ...withLora(adapter) });
    await learn(policy);
    await addGradients(policy);
    const saved = await temporaryFolder();
    await policy.save(saved);
    const [stepped, afterStep, loaded, afterLoad] = await Promise.all([
      step(policy),
      policy.reference(),
      policy.load(saved),
      policy.reference(),
    ]);
    expect(afterStep.version).toBe(stepped.version);
    // The load takes several calls; whichever weights the second one got, its name is theirs.
    const names = new Map([
      [loaded.version, await scores(policy)],
      [stepped.version, await afterStep.logprobs(tree)],
    ]);
    expect(await afterLoad.logprobs(tree)).toEqual(names.get(afterLoad.version));
    expect(policy.version).toBe(loaded.version);
  });

  it("is not taken for the files while a load without room for a second copy goes on", async () => {
    const options = { dir: await makeTinyModel("llama"), ...withLora(adapter) };
    const source = await policyOf(options);
    await learn(source);
    const saved = await temporaryFolder();
    await source.save(saved);
    const policy = await policyOf({ ...options, versionBytes: 0 });
    const before = await scores(policy);
    const loading = policy.load(saved);
    let done = false;
    loading.finally(() => {
      done = true;
    });
    const asked: Promise<Reference>[] = [];
    while (!done) {
      asked.push(policy.reference());
      await new Promise(setImmediate);
    }
    const { version, drained } = await loading;
    expect(drained).toBe(true);
    for (const reference of await Promise.all(asked)) {
      expect(await reference.logprobs(tree)).toEqual(reference.version === version ? await scores(source) : before);
    }
  });

  it("moves as a whole, however many ask at once, and is saved whole meanwhile", async () => {
    const options = { dir: await makeTinyModel("llama"), ...withLora(adapter) };
    const [policy, other] = [await policyOf(options), await policyOf(options)];
    for (const each of [policy, other]) await learn(each);
    const [atOnce, inTurn] = [await policy.reference("base"), await other.reference("base")];
    const dirs = [await temporaryFolder(), await temporaryFolder()] as const;
    await Promise.all([atOnce.blend(0.5), atOnce.save(dirs[0]), atOnce.blend(0.25), atOnce.save(dirs[1])]);
    const read = (dir: string) => policy.reference({ from: dir });
    for (const [decay, dir] of [
      [0.5, dirs[0]],
      [0.25, dirs[1]],
    ] as const) {
      await inTurn.blend(decay);
      const restored = await read(dir);
      expect(await restored.logprobs(tree)).toEqual(await inTurn.logprobs(tree));
      expect(restored.version).toBe(inTurn.version);
    }
    expect(atOnce.version).toBe(inTurn.version);
  });

  it("gives back what it held, also when it is closed while it moves, or with the policy", async () => {
    const policy = await policyOf({ dir: await makeTinyModel("llama"), ...withLora(adapter) });
    await learn(policy);
    for (const of of ["present", "base"] as const) {
      const reference = await policy.reference(of);
      await Promise.all([reference.blend(0.5), reference.close(), reference.close()]);
      await expect(reference.blend(0.5)).rejects.toMatchObject({ code: "POLICY_CLOSED" });
      expect(await held()).toBe(0);
    }
    const reference = await policy.reference();
    await expect(reference.blend(2)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    await Promise.all([reference.close(), policy.close()]);
    await reference.close();
    await expect(reference.logprobs(tree)).rejects.toMatchObject({ code: "POLICY_CLOSED" });
  });

  it("holds nothing when its files are damaged or of another model, and says which", async () => {
    const dir = await makeTinyModel("llama");
    const policy = await policyOf({ dir, ...withLora(adapter) });
    await learn(policy);
    const saved = await temporaryFolder();
    await (await policy.reference()).save(saved);
    const before = await held();
    const [json, file] = [join(saved, "reference.json"), join(saved, "reference-00001-of-00001.safetensors")];
    const [goodJson, good] = [await readFile(json, "utf8"), await readFile(file)];
    const refused = async (code: string) => {
      await expect(policy.reference({ from: saved })).rejects.toMatchObject({ code });
      expect(await held()).toBe(before);
    };
    await writeFile(json, "{");
    await refused("CHECKPOINT_INVALID");
    await writeFile(json, goodJson.replace("own", "elsewhere"));
    await refused("CHECKPOINT_INVALID");
    await writeFile(json, goodJson.replace("own", "opened"));
    await refused("CHECKPOINT_MISMATCH");
    await writeFile(json, goodJson);
    await writeFile(file, good.subarray(0, good.length - 8));
    await refused("CHECKPOINT_INVALID");
    const stored = await openWeights(dir).then((weights) => weights.close().then(() => weights.names[0]!));
    const bytes = await writeSafetensors(file, [{ name: stored, shape: [1], data: new Float32Array(1) }]);
    await writeFile(json, goodJson.replace(`"bytes": ${good.length}`, `"bytes": ${bytes}`));
    await refused("CHECKPOINT_MISMATCH");
    await writeFile(json, goodJson);
    // A number that is none comes up only when it is read, after others.
    const broken = Buffer.from(good);
    broken.writeFloatLE(Number.NaN, broken.length - 4);
    await writeFile(file, broken);
    await refused("CHECKPOINT_INVALID");
  });

  it("is not made of files that have changed since they were opened", async () => {
    const dir = await makeTinyModel("llama");
    const first = await policyOf({ dir, ...withLora(adapter) });
    await learn(first);
    const opened = await temporaryFolder();
    await first.save(opened);
    const policy = await policyOf({ dir: opened });
    const start = await scores(policy);
    const reference = await policy.reference();
    const saved = await temporaryFolder();
    await reference.save(saved);
    await learn(policy);
    expect(await (await policy.reference({ from: saved })).logprobs(tree)).toEqual(start);
    await learn(first);
    await first.save(opened);
    await expect(policy.reference({ from: saved })).rejects.toMatchObject({ code: "MODEL_INVALID" });
  });
});

describe("a reference of a policy with an adapter", () => {
  it("moves from the base by as much of the adapter as it is told", async () => {
    const options = { dir: await makeTinyModel("qwen2"), lora };
    const [policy, quarter] = [await policyOf(options), await policyOf(options)];
    for (const each of [policy, quarter]) for (let i = 0; i < 3; i++) await learn(each);
    const reference = await policy.reference("base");
    await reference.blend(0.75);
    // The same adapter with a quarter of its B.
    const vector = await readVector(quarter, "parameters");
    let at = 0;
    for (const { name, rows, cols, trainable } of await models[1]!.tensors()) {
      if (!trainable) continue;
      vector.subarray(at, at + rows * cols).forEach((value, i, part) => {
        if (name.endsWith(".lora_b")) part[i] = value / 4;
      });
      at += rows * cols;
    }
    await quarter.moveTo(new ArrayVector(vector));
    const [moved, wanted] = [await reference.logprobs(tree), await scores(quarter)];
    moved.forEach((value, i) => {
      expect(value).toBeCloseTo(wanted[i]!, 4);
    });
    expect(moved).not.toEqual(await (await policy.reference("base")).logprobs(tree));
  });

  it("can be another whole model, which is saved whole and does not take the adapter in", async () => {
    const [dir, foreign] = [await makeTinyModel("llama"), await makeTinyModel("llama", {}, { seed: 5 })];
    const other = await policyOf({ dir: foreign });
    const wanted = await scores(other);
    const policy = await policyOf({ dir, lora });
    await learn(policy);
    const reference = await policy.reference({ from: foreign });
    expect(await reference.logprobs(tree)).toEqual(wanted);
    await learn(policy);
    const restored = await again(policy, reference);
    expect(restored.version).toBe(reference.version);
    for (const each of [reference, restored]) {
      expect(await each.logprobs(tree)).toEqual(wanted);
      // All of the way back to where it was: nothing of the policy.
      await each.blend(1);
      expect(await each.logprobs(tree)).toEqual(wanted);
      await each.blend(0);
      expect(await each.logprobs(tree)).toEqual(await scores(policy));
    }
    // Not for a policy that has no such adapter.
    const saved = await temporaryFolder();
    await reference.save(saved);
    await expect(other.reference({ from: saved })).rejects.toMatchObject({ code: "CHECKPOINT_MISMATCH" });
  });

  it("is not the moving weights of a policy without one", async () => {
    const dir = await makeTinyModel("llama");
    const saved = await temporaryFolder();
    await (await (await policyOf({ dir, lora })).reference("base")).save(saved);
    const plain = await policyOf({ dir });
    await expect(plain.reference({ from: saved })).rejects.toMatchObject({ code: "CHECKPOINT_MISMATCH" });
  });
});

it("asks for the memory of a copy where one will be made, and for none under an adapter", async () => {
  const dir = await makeTinyModel("llama");
  const [plain, adapted] = [await policyOf({ dir }), await policyOf({ dir, lora })];
  const [whole, part] = [await temporaryFolder(), await temporaryFolder()];
  const copy = 4 * plain.model.parameters;
  for (const [policy, saved] of [
    [plain, whole],
    [adapted, part],
  ] as const) {
    await learn(policy);
    await policy.save(saved);
  }
  const asked = async (policy: NativePolicy, of: Parameters<NativePolicy["reference"]>[0]) => {
    foreseen.length = 0;
    const reference = await policy.reference(of);
    await again(policy, reference);
    return [...foreseen];
  };
  // Each is saved and read again.
  for (const of of ["present", "base", { from: whole }] as const) expect(await asked(plain, of)).toEqual([copy, copy]);
  for (const of of ["present", "base", { from: part }] as const) expect(await asked(adapted, of)).toEqual([]);
  expect(await asked(adapted, { from: whole })).toEqual([copy, copy]);
});

it("asks for the memory of the largest tensor before weights are saved", async () => {
  const dir = await makeTinyModel("llama");
  const [plain, adapted] = [await policyOf({ dir }), await policyOf({ dir, lora })];
  const { vocabSize, hiddenSize } = plain.model;
  const largest = 4 * vocabSize * hiddenSize;
  const plan = { tokenBudget: 64, recompute: false, reference: false };
  const asked = async (work: (into: string) => Promise<unknown>) => {
    const into = await temporaryFolder();
    foreseen.length = 0;
    await work(into);
    return [...foreseen];
  };
  expect(await asked((into) => plain.save(into))).toEqual([2 * largest]);
  expect(await asked((into) => adapted.save(into, { merge: true }))).toEqual([2 * largest]);
  expect(await asked((into) => plain.saveGguf!(join(into, "model.gguf")))).toEqual([2 * largest]);
  for (const policy of [plain, adapted]) {
    await learn(policy);
    expect(await asked((into) => policy.snapshot(into))).toEqual([policy.plan(plan).saving]);
  }
  expect(plain.plan(plan).saving).toBe(3 * largest);
  expect(adapted.plan(plan).saving).toBeLessThan(largest);
});
