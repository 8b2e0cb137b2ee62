import { createHash } from "node:crypto";
import { cp, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { readVector } from "../../../test/read-vector.ts";
import { architectures, makeTinyModel, temporaryFolder } from "../../../test/tiny-model.ts";
import type { LoraOptions, Policy, TokenTree } from "../policy.ts";
import { openWeights, writeSafetensors } from "../weights/index.ts";
import { loadNativePolicy } from "./load.ts";

const lora: LoraOptions = { rank: 2, alpha: 4, dropout: 0.2, targetModules: "all-linear" };
const sequence = Int32Array.from({ length: 8 }, (_, i) => (i * 37 + 5) % 512);
const tree: TokenTree = {
  tokens: sequence,
  nodeStart: Int32Array.of(0, 8),
  nodeParent: Int32Array.of(-1),
  wanted: Uint8Array.from(sequence, (_, i) => (i > 0 ? 1 : 0)),
};
const shard = "policy-00001-of-00001.safetensors";

async function learn(policy: Policy): Promise<number> {
  const pass = await policy.forward(tree, { values: true });
  await policy.backward(pass, {
    logprobs: Float32Array.from(tree.wanted, (wanted) => -wanted / 8),
    values: new Float32Array(8).fill(-1 / 8),
  });
  return (await policy.step({ learningRate: 1e-2, clipNorm: 1, weightDecay: 0.01 })).gradNorm;
}

async function allOf(file: string): Promise<Map<string, Float32Array>> {
  const weights = await openWeights(file);
  try {
    return new Map(await Promise.all(weights.names.map(async (name) => [name, await weights.read(name)] as const)));
  } finally {
    await weights.close();
  }
}

const json = async (dir: string, name = "policy.json") => JSON.parse(await readFile(join(dir, name), "utf8"));

/** What the engine's own files were made of, before snapshots had the names of Hugging Face. */
const fixture = (name: string) => fileURLToPath(new URL(`./fixtures/${name}`, import.meta.url));
const oldModel = () => makeTinyModel("gpt2", { n_embd: 4, n_head: 2, n_layer: 1, n_positions: 8 });
const openOld = async (adapter: LoraOptions | undefined) =>
  loadNativePolicy({ dir: await oldModel(), ...(adapter && { lora: adapter }), seed: 9 });

describe.each([
  ["full", undefined],
  ["lora", lora],
] as const)("a snapshot of format 2, %s", (kind, adapter) => {
  it("is gone on from bit for bit, also by way of the present format", async () => {
    const [policy, other] = [await openOld(adapter), await openOld(adapter)];
    const { version } = await policy.restore(fixture(`snapshot-2-${kind}`));
    expect(version).toBe((await json(fixture(`snapshot-2-${kind}`))).version);
    const dir = temporaryFolder();
    await policy.snapshot(dir);
    await other.restore(dir);
    expect(other.version).toBe(version);
    for (let i = 0; i < 2; i++) expect(await learn(other)).toBe(await learn(policy));
    expect(await readVector(other, "parameters")).toEqual(await readVector(policy, "parameters"));
    await Promise.all([policy.close(), other.close()]);
  });

  it("keeps every number under its new name", async () => {
    const policy = await openOld(adapter);
    await policy.restore(fixture(`snapshot-2-${kind}`));
    const dir = temporaryFolder();
    await policy.snapshot(dir);
    const [old, now] = [
      await allOf(join(fixture(`snapshot-2-${kind}`), "policy.safetensors")),
      await allOf(join(dir, shard)),
    ];
    const [{ format: _, shapes: __, ...before }, { format, engine, shapes: ___, shards: ____, ...after }] = [
      await json(fixture(`snapshot-2-${kind}`)),
      await json(dir),
    ];
    expect({ format, engine }).toEqual({ format: "stateset-agents policy snapshot 3", engine: "native" });
    expect(after).toEqual(before);
    for (const end of ["", ":m", ":v"]) {
      expect(now.get(`value.weight${end}`)).toEqual(old.get(`value.weight${end}`));
      const h = "transformer.h.0";
      const at = (name: string, index: number) => old.get(`layers.0.${name}${end}`)![index];
      for (const [i, target] of ["q", "k", "v"].entries()) {
        for (let row = 0; row < 4; row++) {
          for (let col = 0; col < (adapter ? 2 : 4); col++) {
            if (adapter) {
              const [a, b] = ["A", "B"].map((side) =>
                now.get(`base_model.model.${h}.attn.c_attn.lora_${side}.weight${end}`),
              );
              expect(a![(2 * i + col) * 4 + row]).toBe(at(`${target}.lora_a`, col * 4 + row));
              expect(b![(4 * i + row) * 6 + 2 * i + col]).toBe(at(`${target}.lora_b`, row * 2 + col));
            } else {
              const whole = now.get(`${h}.attn.c_attn.weight${end}`)!;
              expect(whole[col * 12 + 4 * i + row]).toBe(at(`${target}.weight`, row * 4 + col));
            }
          }
        }
      }
    }
    const numbers = (tensors: Map<string, Float32Array>) =>
      [...tensors.values()].flatMap((data) => [...data].filter((value) => value !== 0)).sort();
    expect(numbers(now)).toEqual(numbers(old));
    await policy.close();
  });

  it("is loaded, and scored with, as it was", async () => {
    const [policy, restored] = [await openOld(adapter), await openOld(adapter)];
    await restored.restore(fixture(`snapshot-2-${kind}`));
    const reference = await policy.reference({ from: fixture(`snapshot-2-${kind}`) });
    const expected = (await restored.forward(tree, { grad: false })).logprobs;
    expect(await reference.logprobs(tree)).toEqual(expected);
    await policy.load(fixture(`snapshot-2-${kind}`));
    expect((await policy.forward(tree, { grad: false })).logprobs).toEqual(expected);
    if (adapter) {
      const old = await policy.reference({ from: fixture("reference-1") });
      expect(await old.logprobs(tree)).toEqual(expected);
      expect(old.version).toBe(restored.version);
      const again = temporaryFolder();
      await old.save(again);
      expect(await (await policy.reference({ from: again })).logprobs(tree)).toEqual(expected);
    }
    await Promise.all([policy.close(), restored.close()]);
  });
});

describe.each(architectures)("a snapshot of %s", (architecture) => {
  it("has the names and shapes of the model's own file, with the moments beside", async () => {
    const dir = await makeTinyModel(architecture);
    const policy = await loadNativePolicy({ dir });
    await learnWithHead(policy);
    const to = temporaryFolder();
    await policy.snapshot(to);
    const model = await openWeights(dir);
    const { shapes } = await json(to);
    const own = Object.fromEntries(model.names.map((name) => [name, model.info(name).shape]));
    expect(shapes).toEqual({ ...own, "value.weight": [1, policy.model.hiddenSize], "value.bias": [1] });
    const names = Object.keys(shapes).flatMap((name) => [name, `${name}:m`, `${name}:v`]);
    expect([...(await allOf(join(to, shard))).keys()].sort()).toEqual(names.sort());
    const saved = temporaryFolder();
    await policy.save(saved);
    const [whole, stored] = [await allOf(saved), await allOf(join(to, shard))];
    for (const [name, data] of whole) expect(stored.get(name)).toEqual(data);
    await Promise.all([model.close(), policy.close()]);
  });

  it("of an adapter has the names of PEFT", async () => {
    const policy = await loadNativePolicy({ dir: await makeTinyModel(architecture), lora });
    await learnWithHead(policy);
    const [to, saved] = [temporaryFolder(), temporaryFolder()];
    await policy.snapshot(to);
    await policy.save(saved);
    const [adapter, stored] = [await allOf(join(saved, "adapter_model.safetensors")), await allOf(join(to, shard))];
    for (const [name, data] of adapter) expect(stored.get(name)).toEqual(data);
    expect(stored.size).toBe(3 * (adapter.size + 2));
    await policy.close();
  });
});

async function learnWithHead(policy: Policy): Promise<void> {
  await policy.addValueHead();
  await learn(policy);
}

it("says which files it wrote, with their hashes, and leaves none of an earlier snapshot", async () => {
  const policy = await loadNativePolicy({ dir: await oldModel() });
  const dir = temporaryFolder();
  for (const name of ["policy.safetensors", "policy-00002-of-00002.safetensors"]) await writeFile(join(dir, name), "");
  const { files } = await policy.snapshot(dir);
  const reference = temporaryFolder();
  const moved = await policy.reference();
  await moved.blend(0.5);
  const { files: referenceFiles } = await moved.save(reference);
  for (const [folder, written] of [
    [dir, files],
    [reference, referenceFiles],
  ] as const) {
    expect((await readdir(folder)).sort()).toEqual(written.map(({ file }) => file).sort());
    for (const { file, bytes, sha256 } of written) {
      const content = await readFile(join(folder, file));
      expect([bytes, sha256]).toEqual([content.length, createHash("sha256").update(content).digest("hex")]);
    }
  }
  expect((await json(dir)).shards).toEqual(files.filter(({ file }) => file === shard));
  await policy.close();
});

it.each([
  ["one adapter for q, k and v", (shape: number[]) => [2, shape[1]!], undefined],
  ["an adapter that mixes them", undefined, (data: Float32Array) => data.fill(0.5)],
])("refuses %s, which another engine trained", async (_, narrow, mix) => {
  const policy = await openOld(lora);
  const dir = temporaryFolder();
  await policy.snapshot(dir);
  const state = await json(dir);
  const name = "base_model.model.transformer.h.0.attn.c_attn.lora_";
  if (narrow) state.shapes[`${name}A.weight`] = narrow(state.shapes[`${name}A.weight`]);
  const tensors = await allOf(join(dir, shard));
  mix?.(tensors.get(`${name}B.weight`)!);
  const shapeOf = (tensor: string) => state.shapes[tensor.replace(/:.$/, "")] as number[];
  const written = [...tensors].map(([tensor, data]) => ({
    ...{ name: tensor, data },
    shape: tensor.startsWith(`${name}A`) ? [data.length] : shapeOf(tensor),
  }));
  state.shards[0].bytes = await writeSafetensors(join(dir, shard), written);
  await writeFile(join(dir, "policy.json"), JSON.stringify(state));
  const before = await readVector(policy, "parameters");
  await expect(policy.restore(dir)).rejects.toMatchObject({
    code: "CHECKPOINT_MISMATCH",
    message: expect.stringMatching(/one adapter for the q, k and v of transformer\.h\.0\.attn\.c_attn/),
  });
  expect(await readVector(policy, "parameters")).toEqual(before);
  await policy.close();
});

it("refuses shards outside its folder, absent or cut short", async () => {
  const policy = await openOld(undefined);
  const dir = temporaryFolder();
  await policy.snapshot(dir);
  const state = await json(dir);
  const refused = { code: "CHECKPOINT_INVALID" };
  for (const change of [
    { file: "../elsewhere.safetensors" },
    { bytes: 12 },
    { file: "policy-00002-of-00002.safetensors" },
  ]) {
    const to = temporaryFolder();
    await cp(join(dir, shard), join(to, shard));
    await writeFile(join(to, "policy.json"), JSON.stringify({ ...state, shards: [{ ...state.shards[0], ...change }] }));
    await expect(policy.restore(to)).rejects.toMatchObject(refused);
  }
  await policy.close();
});

it("takes the weights it was opened with for those that another engine was opened with", async () => {
  const policy = await openOld(undefined);
  const dir = temporaryFolder();
  const start = await policy.reference();
  const before = await start.logprobs(tree);
  await start.save(dir);
  await policy.addValueHead();
  await learn(policy);
  const state = await json(dir, "reference.json");
  expect(state).toMatchObject({ format: 2, source: "opened", shards: [] });
  const rewrite = (change: object) => writeFile(join(dir, "reference.json"), JSON.stringify({ ...state, ...change }));
  await rewrite({ version: "other" });
  await expect(policy.reference({ from: dir })).rejects.toMatchObject({ code: "CHECKPOINT_MISMATCH" });
  await rewrite({ version: "other", engine: "torch" });
  expect(await (await policy.reference({ from: dir })).logprobs(tree)).toEqual(before);
  await policy.close();
});
