import { cp, mkdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { chatModel } from "../../../test/cli.ts";
import { ggufArchitectures, makeTinyModel, temporaryFolder } from "../../../test/tiny-model.ts";
import { buildTokenTree } from "../../conversation/token-tree.ts";
import { StatesetError } from "../../error.ts";
import { createRandom } from "../../random.ts";
import { resolveModel } from "../hub/resolve-model.ts";
import { readModelConfig } from "../native/model-config.ts";
import { checkWeights } from "../native/weights.ts";
import { openPolicy } from "../open-policy.ts";
import { defaultSampling, type Policy } from "../policy.ts";
import { openWeights } from "../weights/index.ts";
import { dequantise, type ReadableType } from "./dequantise.ts";
import { exportGguf } from "./export-gguf.ts";
import { ggufOfFolder } from "./find-gguf.ts";
import { transposed } from "./gguf-weights.ts";
import { quantise, type WritableType } from "./quantise.ts";
import { writeGguf } from "./write-gguf.ts";

async function ggufOf(dir: string, type: WritableType = "F32"): Promise<string> {
  const file = join(await temporaryFolder(), "model.gguf");
  await exportGguf({ dir, file, type, name: "tiny" });
  return file;
}

const bits = (data: Float32Array) => Buffer.from(data.buffer, data.byteOffset, data.byteLength);

async function replies(policy: Policy) {
  const sampling = { ...defaultSampling, maxTokens: 12 };
  const prompts = [[1, 20, 30], [1, 5, 6, 7, 8, 300], Array.from({ length: 40 }, (_, i) => 3 + i)];
  const samples = await policy.sample(
    prompts.map((tokens, seed) => ({ tokens: Int32Array.from(tokens), sampling, seed })),
  );
  return samples.map(({ tokens, logprobs }) => [[...tokens], [...logprobs]]);
}

/** The file says the same as the folder it was made from: another sign, row or axis anywhere would show. */
describe.each(ggufArchitectures)("a GGUF file of %s", (architecture) => {
  it("has configuration and tensors of the folder it was made from, to the bit", async () => {
    const dir = await makeTinyModel(architecture);
    const file = await ggufOf(dir);
    expect((await readModelConfig(file)).engine).toEqual((await readModelConfig(dir)).engine);
    expect((await readModelConfig(file)).architecture).toBe(architecture);
    const [one, two] = [await openWeights(dir), await openWeights(file)];
    expect([...two.names].sort()).toEqual([...one.names].sort());
    for (const name of one.names) {
      expect(two.info(name)).toEqual({ dtype: "F32", shape: one.info(name).shape, file });
      expect(bits(await two.read(name)).equals(bits(await one.read(name))), name).toBe(true);
    }
    await Promise.all([one.close(), two.close()]);
    await expect(two.read(one.names[0]!)).rejects.toMatchObject({ code: "POLICY_CLOSED" });
  });

  it("gives raw bytes by rows of [out, in], in the order of Hugging Face", async () => {
    const file = await ggufOf(await makeTinyModel(architecture), "F16");
    const weights = await openWeights(file);
    for (const name of weights.names) {
      const { type, shape, bytes } = await weights.raw!(name);
      const values = new Float32Array(shape.reduce((a, b) => a * b, 1));
      dequantise(type as ReadableType, bytes, values);
      const same = weights.info(name).shape.join() === shape.join() && !/c_(attn|proj|fc)\.weight/.test(name);
      expect(bits(same ? values : transposed(values, shape)).equals(bits(await weights.read(name))), name).toBe(true);
    }
    await weights.close();
  });

  it("samples the very tokens and log-probs", async () => {
    const dir = await makeTinyModel(architecture);
    const [one, two] = [
      await openPolicy({ model: dir, threads: 1 }),
      await openPolicy({ model: await ggufOf(dir), threads: 1 }),
    ];
    expect(await replies(two)).toEqual(await replies(one));
    expect(two.model.digest).toBe(one.model.digest);
    await Promise.all([one.close(), two.close()]);
  });
});

describe("a policy on a GGUF file", () => {
  it("is not looked for on the hub when there is no such file", async () => {
    await expect(resolveModel("nope.gguf")).rejects.toMatchObject({
      code: "MODEL_NOT_FOUND",
      message: expect.stringContaining("There is no file at nope.gguf."),
    });
  });

  it("writes its adapter with the file's path, and opens it again on that", async () => {
    const file = await ggufOf(await chatModel());
    const policy = await openPolicy({
      model: dirname(file),
      lora: { rank: 2, alpha: 4, dropout: 0, targetModules: "all-linear" },
      threads: 1,
      seed: 3,
    });
    const tokens = Int32Array.from([1, 20, 30, 40]);
    const tree = buildTokenTree([{ tokens, learn: Uint8Array.of(0, 1, 1, 1) }]).tree;
    for (let step = 0; step < 2; step++) {
      const pass = await policy.forward(tree);
      await policy.backward(pass, { logprobs: new Float32Array(pass.logprobs.length).fill(-1) });
      await policy.step({ learningRate: 0.05 });
    }
    const dir = await temporaryFolder();
    await policy.save(dir);
    const wanted = await replies(policy);
    await policy.close();
    const config = JSON.parse(await readFile(join(dir, "adapter_config.json"), "utf8")) as object;
    expect(config).toMatchObject({ base_model_name_or_path: file });
    // The folder of the file will do as well.
    const named = { ...config, base_model_name_or_path: dirname(file) };
    await writeFile(join(dir, "adapter_config.json"), JSON.stringify(named));
    const again = await openPolicy({ model: dir, threads: 1 });
    expect(await replies(again)).toEqual(wanted);
    expect(again.tokenizer.encode("Hello there")).toEqual((await openTokens(file))("Hello there"));

    const merged = join(await temporaryFolder(), "merged");
    await again.save(merged, { merge: true, dtype: "bf16" });
    expect(JSON.parse(await readFile(join(merged, "config.json"), "utf8"))).toMatchObject({
      torch_dtype: "bfloat16",
      model_type: "llama",
    });
    const weights = await openWeights(merged);
    expect(weights.info("model.embed_tokens.weight").dtype).toBe("BF16");
    await weights.close();
    const whole = await openPolicy({ model: merged, threads: 1 });
    expect(whole.model).toMatchObject({ architecture: "llama", parameters: again.model.parameters });
    await whole.close();
    await expect(again.save(dir, { dtype: "bf16" })).rejects.toThrow(/adapter, which is always f32/);
    await again.close();
  });

  it("loads the weights of another file of its shape", async () => {
    const [one, two] = [
      await ggufOf(await makeTinyModel("llama")),
      await ggufOf(await makeTinyModel("llama", {}, { seed: 2 })),
    ];
    const policy = await openPolicy({ model: one, threads: 1 });
    await policy.load(two);
    const other = await openPolicy({ model: two, threads: 1 });
    expect(await replies(policy)).toEqual(await replies(other));
    await Promise.all([policy.close(), other.close()]);
  });

  it("takes the tokenizer beside the file before the file's own", async () => {
    const dir = await chatModel();
    const file = await ggufOf(dir);
    const own = await openTokens(file);
    const json = JSON.parse(await readFile(join(dir, "tokenizer.json"), "utf8")) as { normalizer: unknown };
    const changed = {
      ...json,
      normalizer: { type: "Sequence", normalizers: [{ type: "Lowercase" }, json.normalizer] },
    };
    await writeFile(join(dirname(file), "tokenizer.json"), JSON.stringify(changed));
    const beside = await openTokens(file);
    expect(beside("HELLO")).toEqual(own("hello"));
    expect(own("HELLO")).not.toEqual(own("hello"));
    // Its template is still the file's: none lies beside it.
    const policy = await openPolicy({ model: file, threads: 1 });
    const source = await openPolicy({ model: dir, threads: 1 });
    const said = [{ role: "user" as const, content: "hi" }];
    const prompt = ({ tokenizer }: Policy) => tokenizer.extend(undefined, said, { addGenerationPrompt: true }).tokens;
    expect(prompt(policy)).toEqual(prompt(source));
    await Promise.all([policy.close(), source.close()]);
  });
});

async function openTokens(model: string): Promise<(text: string) => readonly number[] | Int32Array> {
  const policy = await openPolicy({ model, threads: 1 });
  const { tokenizer } = policy;
  await policy.close();
  return (text) => tokenizer.encode(text);
}

describe("where a model is named", () => {
  it("is a file, or the one file of a folder; several are an error that lists them", async () => {
    const source = await makeTinyModel("llama");
    const file = await ggufOf(source);
    const dir = dirname(file);
    expect(await resolveModel(file)).toEqual({ dir: file, name: file });
    expect(await resolveModel(dir)).toEqual({ dir: file, name: dir });
    expect(await readModelConfig(dir)).toEqual(await readModelConfig(file));
    await cp(file, join(dir, "other.Q4_K_M.gguf"));
    await expect(resolveModel(dir)).rejects.toThrow(
      /2 GGUF files: model\.gguf, other\.Q4_K_M\.gguf\. Name the one that is meant, such as .*\/model\.gguf/,
    );
    await cp(join(source, "model.safetensors"), join(dir, "model.safetensors"));
    expect(await resolveModel(dir)).toEqual({ dir, name: dir });
    await mkdir(join(dir, "folder.gguf"));
    expect(await resolveModel(join(dir, "folder.gguf"))).toMatchObject({ dir: join(dir, "folder.gguf") });
    await expect(resolveModel(join(source, "config.json"))).rejects.toThrow(
      /does not end in \.gguf, and no model folder\. Name the folder/,
    );
  });
});

describe("a folder of GGUF files", () => {
  const folderOf = async (...names: string[]) => {
    const dir = await temporaryFolder();
    for (const name of names) await writeFile(join(dir, name), "GGUF");
    return dir;
  };

  it("is the model beside a projector, and says how parts are joined", async () => {
    const seeing = await folderOf("mmproj-model-f16.gguf", "model.gguf");
    expect((await resolveModel(seeing)).dir).toBe(join(seeing, "model.gguf"));
    const alone = await folderOf("mmproj-model-f16.gguf");
    expect((await resolveModel(alone)).dir).toBe(join(alone, "mmproj-model-f16.gguf"));
    const split = await folderOf("m-00001-of-00002.gguf", "m-00002-of-00002.gguf");
    await expect(resolveModel(split)).rejects.toThrow(/parts of one model\. Join them .*llama-gguf-split --merge/);
    await expect(ggufOfFolder(join(seeing, "model.gguf"))).rejects.toMatchObject({
      code: "MODEL_NOT_FOUND",
      message: expect.stringMatching(/cannot be listed: ENOTDIR.*name the \.gguf file itself/),
    });
    const mixed = await folderOf("m-00001-of-00002.gguf", "other.gguf");
    await expect(resolveModel(mixed)).rejects.toThrow(/Name the one that is meant/);
  });

  it("tells a file without the ending by its content, and opens it by a link with the ending", async () => {
    const file = await ggufOf(await makeTinyModel("llama"));
    const dir = await temporaryFolder();
    const blob = join(dir, "sha256-1f2e");
    await cp(file, blob);
    await expect(resolveModel(blob)).rejects.toThrow(/does not end in \.gguf.*ln -s .*sha256-1f2e model\.gguf/);
    const link = join(dir, "a name with spaces.gguf");
    await symlink(blob, link);
    expect(await readModelConfig((await resolveModel(link)).dir)).toEqual(await readModelConfig(file));
  });
});

describe("writing GGUF", () => {
  it("rounds to Q8_0 and F16, and says which matrices cannot be Q8_0", async () => {
    const dir = await makeTinyModel("llama", { hidden_size: 64, num_attention_heads: 4 });
    const file = join(await temporaryFolder(), "q8.gguf");
    const { halved } = await exportGguf({ dir, file, type: "Q8_0", name: "tiny" });
    // The feed-forward block is 88 wide, which is no multiple of 32.
    expect(halved).toEqual([0, 1].map((layer) => `model.layers.${layer}.mlp.down_proj.weight`));
    const [one, two] = [await openWeights(dir), await openWeights(file)];
    const types = new Map(two.names.map((name) => [name, two.info(name).dtype]));
    expect(types.get("model.embed_tokens.weight")).toBe("Q8_0");
    expect(types.get("model.norm.weight")).toBe("F32");
    const [original, read] = [await one.read("model.embed_tokens.weight"), await two.read("model.embed_tokens.weight")];
    const expected = new Float32Array(original.length);
    dequantise("Q8_0", quantise("Q8_0", original, "w"), expected);
    expect(bits(read).equals(bits(expected))).toBe(true);
    await Promise.all([one.close(), two.close()]);
    expect((await stat(file)).size).toBeLessThan((await stat(join(dir, "model.safetensors"))).size / 2);
  });

  it("refuses what a file cannot say", async () => {
    const dir = await makeTinyModel("gpt2", { activation_function: "gelu" });
    await expect(ggufOf(dir)).rejects.toThrow(/exact GELU/);
  });
});

describe("damaged GGUF models", () => {
  it("are refused before a table of rotary factors is read that no model has", async () => {
    const file = join(await temporaryFolder(), "factors.gguf");
    const data = new Float32Array(20_000);
    await writeGguf(file, new Map([["general.architecture", "llama"]]), [
      { name: "rope_freqs.weight", shape: [data.length], type: "F32", data },
    ]);
    await expect(readModelConfig(file)).rejects.toThrow(/"rope_freqs\.weight" has 80000 bytes/);
  });

  it("are not said to have a config.json that does not fit", async () => {
    const config = await readModelConfig(await ggufOf(await makeTinyModel("llama")));
    const file = await ggufOf(await makeTinyModel("llama", { num_hidden_layers: 1 }));
    await expect(checkWeights(file, config)).rejects.toThrow(
      /model\.gguf lack model\.layers\.1\..*The file is incomplete/,
    );
  });

  it("are opened or refused with a StatesetError in 400 mutations", async () => {
    const original = await readFile(await ggufOf(await makeTinyModel("llama", { vocab_size: 512 }), "F16"));
    const dir = await temporaryFolder();
    const file = join(dir, "mutated.gguf");
    const random = createRandom(7);
    const header = original.indexOf("tokenizer.ggml");
    const outcomes = { opened: 0, refused: 0 };
    for (let round = 0; round < 400; round++) {
      let bytes = Buffer.from(original);
      const at = random.below(random.next() < 0.8 ? header : bytes.length);
      if (random.next() < 0.1) bytes = bytes.subarray(0, at);
      else bytes[at] = random.below(256);
      await writeFile(file, bytes);
      try {
        await checkWeights(file, await readModelConfig(file));
        const weights = await openWeights(file);
        for (const name of weights.names.slice(0, 6)) await weights.read(name);
        await weights.close();
        outcomes.opened++;
      } catch (error) {
        if (!StatesetError.isInstance(error)) throw new Error(`round ${round}: ${String(error)}`, { cause: error });
        outcomes.refused++;
      }
    }
    await rm(dir, { recursive: true });
    expect(outcomes.opened).toBeGreaterThan(20);
    expect(outcomes.refused).toBeGreaterThan(100);
  });
});

/** STATESET_GGUF=…/SmolLM2-135M-Instruct.Q4_1.gguf; transformers says the same on the dequantised weights. */
describe.runIf(process.env.STATESET_GGUF)("SmolLM2-135M-Instruct", () => {
  it("answers", async () => {
    const policy = await openPolicy({ model: process.env.STATESET_GGUF!, threads: 1 });
    const messages = [{ role: "user" as const, content: "What is the capital of France?" }];
    const { tokens } = policy.tokenizer.extend(undefined, messages, { addGenerationPrompt: true });
    const sampling = { ...defaultSampling, temperature: 0, maxTokens: 20 };
    const [sample] = await policy.sample([{ tokens, sampling, seed: 1 }]);
    expect(policy.tokenizer.decode(sample!.tokens)).toBe("The capital of France is Paris.");
    await policy.close();
  }, 120_000);
});
