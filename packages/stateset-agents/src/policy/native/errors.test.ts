import { readdirSync, readFileSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";
import { readVector } from "../../../test/read-vector.ts";
import { makeTinyModel, storiesDir, temporaryFolder, tinyConfig } from "../../../test/tiny-model.ts";
import { defaultSampling, type TokenTree } from "../policy.ts";
import type { TensorToWrite } from "../weights/index.ts";
import { engineCodes } from "./errors.ts";
import { loadNativePolicy } from "./load.ts";

const lora = { rank: 2, alpha: 4, dropout: 0, targetModules: ["q_proj"] };

function line(length: number): TokenTree {
  return {
    tokens: new Int32Array(length).fill(5),
    nodeStart: Int32Array.of(0, length),
    nodeParent: Int32Array.of(-1),
    wanted: new Uint8Array(length).fill(1),
  };
}

async function loadEdited(edit: (tensors: TensorToWrite[]) => TensorToWrite[], changes = {}) {
  return loadNativePolicy({ dir: await makeTinyModel("llama", changes, { edit }) });
}

describe("loading refuses", () => {
  it.each([
    ["an unknown architecture", { model_type: "mamba" }, "MODEL_UNSUPPORTED", /"mamba".*llama/],
    ["an unknown rope scaling", { rope_scaling: { rope_type: "yarn", factor: 2 } }, "MODEL_UNSUPPORTED", /yarn/],
    ["quantised weights", { quantization_config: { bits: 4 } }, "MODEL_UNSUPPORTED", /quantised/],
    ["an unknown activation", { hidden_act: "relu" }, "MODEL_UNSUPPORTED", /relu/],
    ["a size that is no number", { hidden_size: "big" }, "MODEL_INVALID", /hidden_size.*"big"/],
    ["a size that is negative", { num_hidden_layers: -2 }, "MODEL_INVALID", /num_hidden_layers/],
    ["another number of key heads", { num_key_value_heads: 3 }, "MODEL_INVALID", /k_proj/],
    ["a vocabulary smaller than the tokenizer's", { vocab_size: 100 }, "TOKENIZER_INVALID", /100/],
    ["a vocabulary larger than the weights'", { vocab_size: 600 }, "MODEL_INVALID", /600.*512|512.*600/],
    ["another number of layers", { num_hidden_layers: 1 }, "MODEL_INVALID", /model\.layers\.1/],
  ] as const)("%s", async (_, changes, code, message) => {
    const dir = await makeTinyModel("llama");
    await writeFile(join(dir, "config.json"), JSON.stringify({ ...tinyConfig("llama"), ...changes }));
    await expect(loadNativePolicy({ dir })).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
  });

  it("heads that do not divide, also where the weights agree", async () => {
    const dir = await makeTinyModel("llama", { num_key_value_heads: 3 });
    await expect(loadNativePolicy({ dir })).rejects.toMatchObject({
      code: "MODEL_INVALID",
      message: expect.stringContaining("kv_heads"),
    });
  });

  it("a folder that is not there, or holds no model", async () => {
    await expect(loadNativePolicy({ dir: "/no/such/folder" })).rejects.toMatchObject({ code: "MODEL_NOT_FOUND" });
    await expect(loadNativePolicy({ dir: await temporaryFolder() })).rejects.toMatchObject({ code: "MODEL_NOT_FOUND" });
    const dir = await makeTinyModel("llama");
    await rm(join(dir, "model.safetensors"));
    await expect(loadNativePolicy({ dir })).rejects.toMatchObject({ code: "MODEL_NOT_FOUND" });
    await writeFile(join(dir, "config.json"), "{ not json");
    await expect(loadNativePolicy({ dir })).rejects.toMatchObject({ code: "MODEL_INVALID" });
    await writeFile(join(dir, "config.json"), Uint8Array.of(0x7b, 0xff, 0xfe, 0x7d));
    await expect(loadNativePolicy({ dir })).rejects.toMatchObject({ code: "MODEL_INVALID" });
  });

  it("missing tensors, by name", async () => {
    const edit = (tensors: TensorToWrite[]) => tensors.filter(({ name }) => !name.includes("layers.1.mlp"));
    await expect(loadEdited(edit)).rejects.toMatchObject({
      code: "MODEL_INVALID",
      message: expect.stringContaining("model.layers.1.mlp.gate_proj.weight"),
    });
  });

  it("surplus tensors, by name", async () => {
    const extra: TensorToWrite = { name: "model.layers.9.odd.weight", shape: [2], data: new Float32Array(2) };
    await expect(loadEdited((tensors) => [...tensors, extra])).rejects.toMatchObject({
      code: "MODEL_INVALID",
      message: expect.stringContaining("model.layers.9.odd.weight"),
    });
  });

  it("tensors of another shape", async () => {
    const edit = (tensors: TensorToWrite[]) =>
      tensors.map((tensor) => (tensor.name.endsWith("0.mlp.up_proj.weight") ? { ...tensor, shape: [48, 88] } : tensor));
    await expect(loadEdited(edit)).rejects.toMatchObject({
      code: "MODEL_INVALID",
      message: expect.stringMatching(/up_proj.*\[48, 88\].*\[88, 48\]/),
    });
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY])("weights that hold %f", async (bad) => {
    const edit = (tensors: TensorToWrite[]) => {
      const { data } = tensors.find(({ name }) => name.endsWith("1.self_attn.v_proj.weight"))!;
      (data as Float32Array)[7] = bad;
      return tensors;
    };
    await expect(loadEdited(edit)).rejects.toMatchObject({
      code: "MODEL_INVALID",
      message: expect.stringContaining("v_proj"),
    });
  });

  it("a model that cannot fit, before it allocates anything", async () => {
    const dir = await makeTinyModel("llama");
    const huge = { hidden_size: 2 ** 20, num_attention_heads: 64, num_key_value_heads: 64, num_hidden_layers: 4096 };
    await writeFile(join(dir, "config.json"), JSON.stringify({ ...tinyConfig("llama"), ...huge }));
    const before = process.memoryUsage.rss();
    await expect(loadNativePolicy({ dir })).rejects.toMatchObject({
      code: "OUT_OF_MEMORY",
      message: expect.stringMatching(/GiB/),
    });
    expect(process.memoryUsage.rss() - before).toBeLessThan(200e6);
  });

  it("adapter options that do not fit", async () => {
    const load = (changes: object) => loadNativePolicy({ dir: storiesDir, lora: { ...lora, ...changes } });
    await expect(load({ targetModules: ["q_prj"] })).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringContaining('Did you mean "q_proj"?'),
    });
    await expect(load({ rank: 0 })).rejects.toMatchObject({ code: "INVALID_OPTION" });
    await expect(load({ rnk: 1 })).rejects.toMatchObject({ message: expect.stringContaining('Did you mean "rank"?') });
  });

  it("unknown options, with the nearest", async () => {
    await expect(loadNativePolicy({ dir: storiesDir, thread: 1 } as never)).rejects.toMatchObject({
      message: expect.stringContaining('Did you mean "threads"?'),
    });
  });
});

describe("an engine that failed", () => {
  afterEach(() => {
    delete process.env.STATESET_ENGINE_FAILS;
  });

  it("says so to everybody, frees its model, and another one can be opened", async () => {
    const open = () => loadNativePolicy({ dir: storiesDir });
    const line = Int32Array.of(5, 6, 7);
    const one = { tokens: line, seed: 1, sampling: { ...defaultSampling, maxTokens: 40 } };
    const healthy = await open();
    const expected = await healthy.sample([one]);
    process.env.STATESET_ENGINE_FAILS = "9";
    const failing = await open();
    const failed = { code: "ENGINE_FAILED", message: expect.stringContaining("stopped") };
    const told: number[] = [];
    const replies = [1, 2].map((seed) => failing.sample([{ ...one, seed }], { onToken: () => void told.push(seed) }));
    for (const reply of await Promise.allSettled(replies)) expect(reply).toMatchObject({ reason: failed });
    expect(told.length).toBeGreaterThan(0);
    expect(failing.stats()).toMatchObject({ failed: true, running: 0, waiting: 0 });
    await expect(failing.sample([one])).rejects.toMatchObject(failed);
    await expect(failing.embed!([line])).rejects.toMatchObject(failed);
    await expect(failing.save(temporaryFolder())).rejects.toMatchObject(failed);
    await failing.close();
    // It was told to fail once.
    const again = await open();
    const [sample] = await again.sample([one]);
    expect(sample!.logprobs).toEqual(expected[0]!.logprobs);
    expect([again, healthy].map((policy) => policy.stats().failed)).toEqual([false, false]);
    await Promise.all([again.close(), healthy.close()]);
  });
});

describe("using refuses", () => {
  const request = (tokens: Int32Array, changes = {}) => ({
    tokens,
    sampling: { ...defaultSampling, ...changes },
    seed: 1,
  });

  it("sequences past the context", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir });
    await expect(policy.sample([request(new Int32Array(512).fill(3))])).rejects.toMatchObject({
      code: "CONTEXT_OVERFLOW",
    });
    await expect(policy.forward(line(513))).rejects.toMatchObject({ code: "CONTEXT_OVERFLOW" });
    // The last place of the context can still be sampled into, and the whole be scored.
    const full = await policy.sample([request(new Int32Array(511).fill(3), { maxTokens: 9 })]);
    expect(full[0]!.tokens.length).toBe(1);
    expect((await policy.forward(line(512), { grad: false })).logprobs.length).toBe(512);
    await policy.close();
  });

  it("bad requests and trees", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir });
    const invalid = { code: "INVALID_OPTION" };
    await expect(policy.sample([request(new Int32Array(0))])).rejects.toMatchObject(invalid);
    await expect(policy.sample([request(Int32Array.of(512))])).rejects.toMatchObject(invalid);
    await expect(policy.sample([request(Int32Array.of(-1))])).rejects.toMatchObject(invalid);
    await expect(policy.sample([request(Int32Array.of(1), { temperature: -1 })])).rejects.toMatchObject(invalid);
    await expect(policy.sample([request(Int32Array.of(1), { topP: 0 })])).rejects.toMatchObject(invalid);
    await expect(policy.sample([{ ...request(Int32Array.of(1)), seed: 0.5 }])).rejects.toMatchObject(invalid);
    await expect(policy.forward({ ...line(4), wanted: new Uint8Array(3) })).rejects.toMatchObject(invalid);
    await expect(policy.forward({ ...line(4), nodeParent: Int32Array.of(0) })).rejects.toMatchObject(invalid);
    await expect(policy.forward({ ...line(4), nodeStart: Int32Array.of(0, 3) })).rejects.toMatchObject(invalid);
    await expect(policy.forward({ ...line(4), tokens: new Int32Array(4).fill(512) })).rejects.toMatchObject(invalid);
    await expect(policy.forward(line(4), { temperature: 0 })).rejects.toMatchObject(invalid);
    await expect(policy.forward(line(4), { values: true })).rejects.toMatchObject(invalid);
    await policy.close();
  });

  it("a pass that was used, released or made without grad", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir });
    const derivatives = { logprobs: new Float32Array(4) };
    const used = await policy.forward(line(4));
    await expect(policy.backward(used, { logprobs: new Float32Array(3) })).rejects.toMatchObject({
      code: "INVALID_OPTION",
    });
    await policy.backward(used, derivatives);
    await expect(policy.backward(used, derivatives)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    const released = await policy.forward(line(4));
    released.release();
    await expect(policy.backward(released, derivatives)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    const plain = await policy.forward(line(4), { grad: false });
    await expect(policy.backward(plain, derivatives)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    await policy.close();
  });

  it.each([
    { epsilon: 0 },
    { epsilon: 1e-60 },
    { beta1: 1 },
    { beta2: 1.5 },
    { beta2: 1 - 1e-12 },
    { clipNorm: -1 },
    { clipNorm: Number.NaN },
    { valueLearningRate: -1 },
    { learningRate: Number.NaN },
    { weightDecay: -0.1 },
  ])("a step that would destroy the weights: %j", async (changes) => {
    const policy = await loadNativePolicy({ dir: await makeTinyModel("llama") });
    const pass = await policy.forward(line(8));
    await policy.backward(pass, { logprobs: new Float32Array(8).fill(1) });
    const before = await readVector(policy, "parameters");
    await expect(policy.step({ learningRate: 0.1, ...changes })).rejects.toMatchObject({ code: "INVALID_OPTION" });
    expect(await readVector(policy, "parameters")).toEqual(before);
    expect((await policy.step({ learningRate: 0.1, clipNorm: 1 })).applied).toBe(true);
    await policy.close();
  });

  it("more requests than may wait", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir, slots: 1, maxWaiting: 1 });
    const requests = Array.from({ length: 3 }, () =>
      policy.sample([request(Int32Array.of(1), { maxTokens: 400, minTokens: 400 })]),
    );
    await expect(requests[2]).rejects.toMatchObject({ code: "BUSY" });
    await Promise.all(requests.slice(0, 2));
    await policy.close();
  });

  it("everything after close, and work that close interrupts", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir });
    const reference = await policy.reference();
    const interrupted = policy.sample([request(Int32Array.of(1), { maxTokens: 500, temperature: 0.5 })]);
    const outcome = expect(interrupted).rejects.toMatchObject({ code: "POLICY_CLOSED" });
    await policy.close();
    await outcome;
    await policy.close();
    const closed = { code: "POLICY_CLOSED" };
    await expect(policy.sample([request(Int32Array.of(1))])).rejects.toMatchObject(closed);
    await expect(policy.forward(line(4))).rejects.toMatchObject(closed);
    await expect(policy.step({ learningRate: 1 })).rejects.toMatchObject(closed);
    await expect(policy.save("/tmp/never")).rejects.toMatchObject(closed);
    await expect(reference.logprobs(line(4))).rejects.toMatchObject(closed);
  });

  it("a batch that cannot fit, before it computes anything", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir });
    const [sequences, length] = [8000, 500];
    const tree: TokenTree = {
      tokens: new Int32Array(sequences * length).fill(5),
      nodeStart: Int32Array.from({ length: sequences + 1 }, (_, i) => i * length),
      nodeParent: new Int32Array(sequences).fill(-1),
      wanted: new Uint8Array(sequences * length).fill(1),
    };
    await expect(policy.forward(tree)).rejects.toMatchObject({ code: "OUT_OF_MEMORY" });
    // It goes on with what fits.
    expect((await policy.forward(line(100), { grad: false })).logprobs.length).toBe(100);
    await policy.close();
  });

  it("snapshots of something else, damaged or absent", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir });
    const dir = await temporaryFolder();
    await expect(policy.restore(dir)).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    await policy.snapshot(dir);
    const adapted = await loadNativePolicy({ dir: storiesDir, lora });
    await expect(adapted.restore(dir)).rejects.toMatchObject({ code: "CHECKPOINT_MISMATCH" });
    const other = await loadNativePolicy({ dir: await makeTinyModel("llama") });
    await expect(other.restore(dir)).rejects.toMatchObject({ code: "CHECKPOINT_MISMATCH" });
    await writeFile(join(dir, "policy-00001-of-00001.safetensors"), "short");
    await expect(policy.restore(dir)).rejects.toMatchObject({ code: "CHECKPOINT_INVALID" });
    await writeFile(join(dir, "policy.json"), "{}");
    await expect(policy.restore(dir)).rejects.toMatchObject({ code: "CHECKPOINT_INVALID" });
    await Promise.all([policy.close(), adapted.close(), other.close()]);
  });

  it("folders that cannot be written", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir });
    await expect(policy.save("/dev/null/model")).rejects.toMatchObject({ code: "WRITE_FAILED" });
    await expect(policy.snapshot("/dev/null/model")).rejects.toMatchObject({ code: "WRITE_FAILED" });
    const file = join(await temporaryFolder(), "a file");
    await writeFile(file, "");
    for (const work of [
      () => policy.save(file),
      () => policy.saveGguf!(join(file, "x.gguf")),
      () => policy.snapshot(file),
    ]) {
      await expect(work()).rejects.toMatchObject({ code: "WRITE_FAILED", hint: expect.any(String) });
    }
    await policy.close();
  });

  it("to change the tokenizer of a folder whose weights cannot be written", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir });
    const dir = await temporaryFolder();
    await writeFile(join(dir, "tokenizer.json"), "of another model");
    // What is to become a file is a folder.
    await mkdir(join(dir, "model.safetensors", "x"), { recursive: true });
    await expect(policy.save(dir)).rejects.toMatchObject({ code: "WRITE_FAILED" });
    expect(readFileSync(join(dir, "tokenizer.json"), "utf8")).toBe("of another model");
    expect(readdirSync(dir).sort()).toEqual(["model.safetensors", "tokenizer.json"]);
    await policy.close();
  });

  it("an adapter of another model, and says so", async () => {
    const adapted = await loadNativePolicy({ dir: storiesDir, lora });
    const dir = await temporaryFolder();
    await adapted.save(dir);
    await adapted.close();
    const file = join(dir, "adapter_config.json");
    const config = JSON.parse(readFileSync(file, "utf8")) as object;
    const base = await makeTinyModel("llama", { hidden_size: 32, num_attention_heads: 2 });
    await writeFile(file, JSON.stringify({ ...config, target_modules: ["c_attn"] }));
    await expect(loadNativePolicy({ dir })).rejects.toMatchObject({
      code: "MODEL_INVALID",
      message: expect.stringMatching(
        /target_modules in .*adapter_config\.json names "c_attn".*trained on another model/,
      ),
    });
    await writeFile(file, JSON.stringify({ ...config, base_model_name_or_path: base }));
    await expect(loadNativePolicy({ dir })).rejects.toThrow(
      /lora_A\.weight in .* has the shape \[2, 64\]; the model under it wants \[2, 32\]\..*trained on another model/,
    );
  });
});

it("has a code of the library for every code of the engine", () => {
  const engine = fileURLToPath(new URL("../../../../engine", import.meta.url));
  const files = (dir: string): string[] =>
    readdirSync(join(engine, dir), { recursive: true, encoding: "utf8" }).map((name) => join(engine, dir, name));
  const sources = [...files("native/src"), ...files("src")].filter(
    (file) => /\.(rs|ts)$/.test(file) && !/test/.test(file),
  );
  const codes = sources.flatMap((file) =>
    [...readFileSync(file, "utf8").matchAll(/(?:new|EngineError)\(\s*"([A-Z][A-Z_]+)"|PANIC: &str = "([A-Z_]+)"/g)].map(
      ([, made, panic]) => made ?? panic!,
    ),
  );
  expect(codes.length).toBeGreaterThan(10);
  expect([...new Set(codes)].filter((code) => !(code in engineCodes))).toEqual([]);
});
