/** Ours against PyTorch, transformers and peft, on random models made fresh for this run. Needs STATESET_PYTHON. */
import { execFileSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Model, openModel } from "@stateset-agents/engine";
import { beforeAll, describe, expect, it } from "vitest";
import { loadNativePolicy } from "../../src/policy/native/load.ts";
import { parseModelConfig } from "../../src/policy/native/model-config.ts";
import { findTargets, loadAdapter } from "../../src/policy/native/peft.ts";
import { insertPart, linearModules, type TensorPlace, tensorPlaces } from "../../src/policy/native/tensor-names.ts";
import { loadWeights } from "../../src/policy/native/weights.ts";
import { defaultSampling, type LoraOptions, type Policy, type TokenTree } from "../../src/policy/policy.ts";
import { readJsonObject } from "../../src/policy/tokenizer/model-json.ts";
import { openWeights, writeSafetensors } from "../../src/policy/weights/index.ts";
import { storiesDir, temporaryFolder } from "../tiny-model.ts";

const python = process.env.STATESET_PYTHON;
const script = fileURLToPath(new URL("./parity.py", import.meta.url));
const cases = [
  "gpt2",
  "llama",
  "llama-biased",
  "llama-bf16",
  "mistral",
  "qwen2",
  "qwen3",
  "qwen2-mixed",
  "qwen3-mixed",
  "gemma3",
  "granite",
  "phi3",
  "smollm3",
];
const vocab = 512;
const lora: LoraOptions = { rank: 3, alpha: 5, dropout: 0, targetModules: "all-linear" };

/** With another alpha for some modules. */
const scaled = (name: string): LoraOptions => ({
  ...lora,
  alphaPattern:
    name === "gpt2" ? { c_attn: 11 } : { [name === "phi3" ? "qkv_proj" : "v_proj"]: 11, "mlp.down_proj": 2 },
});

/** Where peft has one A for layers that have one each here, both learn something else. */
const sharesA = (name: string) => name === "gpt2" || name === "phi3";

function run(...args: string[]): string {
  return execFileSync(python!, [script, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

async function readAll(file: string): Promise<Map<string, Float32Array>> {
  const weights = await openWeights(file);
  const all = new Map<string, Float32Array>();
  for (const name of weights.names) all.set(name, await weights.read(name, { allowNonFinite: true }));
  await weights.close();
  return all;
}

function maxDifference(a: Float32Array, b: Float32Array): number {
  expect(a.length).toBe(b.length);
  return a.reduce((max, value, i) => Math.max(max, Math.abs(value - b[i]!)), 0);
}

/** ‖a − b‖ / ‖b‖ */
function relativeDifference(a: Float32Array, b: Float32Array): number {
  expect(a.length).toBe(b.length);
  let [difference, size] = [0, 0];
  b.forEach((value, i) => {
    difference += (a[i]! - value) ** 2;
    size += value ** 2;
  });
  return Math.sqrt(difference / Math.max(size, 1e-30));
}

function line(tokens: Int32Array): TokenTree {
  return {
    tokens,
    nodeStart: Int32Array.of(0, tokens.length),
    nodeParent: Int32Array.of(-1),
    wanted: new Uint8Array(tokens.length).fill(1),
  };
}

/** log p of every token of the vocabulary after each prefix: every token of the sequence is a node with the vocabulary as leaves. */
async function allLogprobs(
  score: (tree: TokenTree) => Promise<Float32Array>,
  tokens: Int32Array,
): Promise<Float32Array> {
  const n = tokens.length;
  const leaves = Array.from({ length: n }, () => [...Array(vocab).keys()]).flat();
  const tree: TokenTree = {
    tokens: Int32Array.of(...tokens, ...leaves),
    nodeStart: Int32Array.from({ length: n + leaves.length + 1 }, (_, i) => i),
    nodeParent: Int32Array.from({ length: n + leaves.length }, (_, i) => (i < n ? i - 1 : Math.floor((i - n) / vocab))),
    wanted: new Uint8Array(n + leaves.length).fill(1, n),
  };
  return (await score(tree)).slice(n);
}

const policyScores = (policy: Policy) => async (tree: TokenTree) =>
  (await policy.forward(tree, { grad: false })).logprobs;

const wants = { entropy: false, values: false, hidden: false, recompute: false, temperature: 1 };
const modelScores = (model: Model) => async (tree: TokenTree) =>
  (await model.forward(tree, { ...wants, grad: false, adapters: true, dropoutSeed: undefined })).logprobs;

async function backward(model: Model, tokens: Int32Array, weights: Float32Array): Promise<void> {
  const { pass } = await model.forward(line(tokens), { ...wants, grad: true, adapters: true, dropoutSeed: undefined });
  await model.backward(pass!, { logprobs: Float32Array.of(0, ...weights), valuesIntoTrunk: true });
}

/** Ten steps as parity.py takes them. */
async function train(model: Model, tokens: Int32Array, weights: Float32Array, loraPlusRatio?: number): Promise<void> {
  for (let step = 0; step < 10; step++) {
    await backward(model, tokens, weights);
    const adam = { beta1: 0.9, beta2: 0.99, epsilon: 1e-6, weightDecay: 0.1, clipNorm: 1 };
    expect((await model.step({ learningRate: 1e-3, loraPlusRatio, ...adam, scope: "all" })).applied).toBe(true);
  }
}

async function readPlace(model: Model, place: TensorPlace, what: "parameters" | "gradients"): Promise<Float32Array> {
  const whole = new Float32Array(place.shape.reduce((a, b) => a * b, 1));
  for (const part of place.parts) insertPart(place, part, await model.readTensor(part.engine, what), whole);
  return whole;
}

describe.skipIf(!python)(
  "parity with PyTorch (set STATESET_PYTHON to a Python with torch, transformers and peft)",
  () => {
    let root: string;
    beforeAll(async () => {
      root = await temporaryFolder();
      const seed = randomInt(2 ** 31);
      console.log(`parity: models made with seed ${seed}`);
      run("make", root, String(seed), storiesDir);
    }, 900_000);

    const open = async (name: string) => {
      const dir = join(root, name, "base");
      const config = parseModelConfig((await readJsonObject(dir, "config.json"))!, dir);
      const model = await openModel(config.engine, { threads: 2, slots: 4, cacheBytes: 1e8 });
      await loadWeights(dir, config, model, {});
      const numbers = await readAll(join(root, name, "numbers.safetensors"));
      const tokens = Int32Array.from(numbers.get("tokens")!);
      return { config, model, numbers, tokens, weights: numbers.get("weights")! };
    };
    const openAdapted = async (name: string) => {
      const opened = await open(name);
      const { config, model } = opened;
      const modules = findTargets(lora, linearModules(config.architecture, config.engine));
      const targets = [...new Set(modules.flatMap((module) => module.targets.map(({ target }) => target)))];
      await model.addLora({ rank: 3, alpha: 5, dropout: 0, targets, seed: 1 });
      await model.setTrainable("adapters");
      const access = { read: (tensor: string) => model.readTensor(tensor), set: model.setTensor };
      await loadAdapter(join(root, name, "adapter"), lora, modules, access);
      return { ...opened, modules };
    };

    describe.each(cases)("%s", (name) => {
      it("has the same logits (within 1e-4) and generates the same tokens", async () => {
        const policy = await loadNativePolicy({ dir: join(root, name, "base") });
        const numbers = await readAll(join(root, name, "numbers.safetensors"));
        const tokens = Int32Array.from(numbers.get("tokens")!);
        expect(maxDifference(await allLogprobs(policyScores(policy), tokens), numbers.get("logits")!)).toBeLessThan(
          1e-4,
        );
        const sampling = { ...defaultSampling, temperature: 0, maxTokens: 40 };
        const [sample] = await policy.sample([{ tokens: tokens.slice(0, 6), sampling, seed: 0 }]);
        const expected = Int32Array.from(numbers.get("generated")!);
        // transformers was told to go on past the end token.
        expect(sample!.tokens).toEqual(expected.slice(0, sample!.tokens.length));
        if (sample!.tokens.length < 40) expect(policy.model.endTokens).toContain(sample!.tokens.at(-1));
        await policy.close();
      });

      it("has the same gradient of every parameter (within 1e-3), and the same weights after ten AdamW steps", async () => {
        const { config, model, tokens, weights } = await open(name);
        await model.setTrainable("full");
        await backward(model, tokens, weights);
        const gradients = await readAll(join(root, name, "gradients.safetensors"));
        const places = tensorPlaces(config.architecture, config.engine);
        expect(places.map((place) => place.name).sort()).toEqual([...gradients.keys()].sort());
        const size = Math.sqrt([...gradients.values()].reduce((sum, g) => sum + g.reduce((s, x) => s + x * x, 0), 0));
        for (const place of places) {
          const expected = gradients.get(place.name)!;
          // A key's bias moves all scores of a query alike, so its true gradient is zero: there only rounding can be compared.
          const zero = Math.sqrt(expected.reduce((s, x) => s + x * x, 0)) < 1e-5 * size;
          const got = await readPlace(model, place, "gradients");
          if (zero) expect(maxDifference(got, expected), place.name).toBeLessThan(1e-5 * size);
          else expect(relativeDifference(got, expected), place.name).toBeLessThan(1e-3);
        }
        await model.zeroGradients();
        const before = new Map(
          await Promise.all(places.map(async (p) => [p.name, await readPlace(model, p, "parameters")] as const)),
        );
        await train(model, tokens, weights);
        const trained = await readAll(join(root, name, "trained.safetensors"));
        for (const place of places) {
          if (/k_proj\.bias$/.test(place.name)) continue;
          const moved = (to: Float32Array) => to.map((value, i) => value - before.get(place.name)![i]!);
          const got = moved(await readPlace(model, place, "parameters"));
          expect(relativeDifference(got, moved(trained.get(place.name)!)), place.name).toBeLessThan(2e-2);
        }
        expect(maxDifference(await allLogprobs(modelScores(model), tokens), trained.get("logits")!)).toBeLessThan(2e-3);
        await model.close();
      });

      it("reads peft's adapter: the same logits, gradients and weights after ten steps", async () => {
        const { model, tokens, weights, modules } = await openAdapted(name);
        const numbers = await readAll(join(root, name, "adapter-numbers.safetensors"));
        expect(maxDifference(await allLogprobs(modelScores(model), tokens), numbers.get("logits")!)).toBeLessThan(1e-4);
        await backward(model, tokens, weights);
        for (const { path, layer, inSize, targets } of modules) {
          const a = new Float32Array(3 * inSize);
          const b: number[] = [];
          for (const { target } of targets) {
            // Where peft shares one A among q, k and v, its gradient is the sum of ours.
            const part = await model.readTensor(`layers.${layer}.${target}.lora_a`, "gradients");
            part.forEach((value, i) => {
              a[i]! += value;
            });
            b.push(...(await model.readTensor(`layers.${layer}.${target}.lora_b`, "gradients")));
          }
          const key = `base_model.model.${path}`;
          expect(relativeDifference(a, numbers.get(`${key}.lora_A.weight`)!), `${path} A`).toBeLessThan(1e-3);
          expect(
            relativeDifference(Float32Array.from(b), numbers.get(`${key}.lora_B.weight`)!),
            `${path} B`,
          ).toBeLessThan(1e-3);
        }
        await model.zeroGradients();
        if (!sharesA(name)) {
          await train(model, tokens, weights);
          const trained = await readAll(join(root, name, "adapter-trained.safetensors"));
          expect(maxDifference(await allLogprobs(modelScores(model), tokens), trained.get("logits")!)).toBeLessThan(
            2e-3,
          );
        }
        await model.close();
      });
    });

    it.each(cases.filter((name) => !sharesA(name)))(
      "%s: ten steps of LoRA+ move A and B as peft's own optimiser does",
      async (name) => {
        const { model, tokens, weights, modules } = await openAdapted(name);
        const ours = modules.flatMap(({ path, layer, targets }) =>
          (["A", "B"] as const).map((half) => ({
            engine: `layers.${layer}.${targets[0]!.target}.lora_${half.toLowerCase()}`,
            peft: `base_model.model.${path}.lora_${half}.weight`,
          })),
        );
        const before = await Promise.all(ours.map(({ engine }) => model.readTensor(engine)));
        await train(model, tokens, weights, 8);
        const trained = await readAll(join(root, name, "adapter-plus.safetensors"));
        for (const [i, { engine, peft }] of ours.entries()) {
          const moved = (to: Float32Array) => to.map((value, k) => value - before[i]![k]!);
          const got = moved(await model.readTensor(engine));
          expect(relativeDifference(got, moved(trained.get(peft)!)), peft).toBeLessThan(2e-2);
        }
        const logits = await allLogprobs(modelScores(model), tokens);
        expect(maxDifference(logits, trained.get("logits")!)).toBeLessThan(1e-2);
        await model.close();
      },
    );

    it.each(cases)("reads %s with an adapter that scales its modules differently, and writes it so", async (name) => {
      const tokens = Int32Array.from((await readAll(join(root, name, "numbers.safetensors"))).get("tokens")!);
      const wanted = (await readAll(join(root, name, "scaled-numbers.safetensors"))).get("logits")!;
      const policy = await loadNativePolicy({ dir: join(root, name, "scaled") });
      expect(policy.model.lora!.alphaPattern).toBeDefined();
      expect(maxDifference(await allLogprobs(policyScores(policy), tokens), wanted)).toBeLessThan(1e-4);
      for (const merge of [false, true]) {
        const dir = join(root, name, merge ? "scaled-merged" : "scaled-again");
        await policy.save(dir, { merge });
        const again = await loadNativePolicy({ dir });
        expect(maxDifference(await allLogprobs(policyScores(again), tokens), wanted)).toBeLessThan(1e-4);
        await again.close();
      }
      await policy.close();
    });

    it("writes stories260K's greedy text token for token", async () => {
      const policy = await loadNativePolicy({ dir: storiesDir });
      const sampling = { ...defaultSampling, temperature: 0, maxTokens: 200 };
      const [sample] = await policy.sample([{ tokens: Int32Array.of(1), sampling, seed: 0 }]);
      expect(sample!.tokens).toEqual(
        Int32Array.from((await readAll(join(root, "stories.safetensors"))).get("generated")!),
      );
      await policy.close();
    });

    it("saves models and adapters that transformers and peft load with the same logits", async () => {
      for (const name of cases) {
        const folder = join(root, name);
        const numbers = await readAll(join(folder, "numbers.safetensors"));
        const tokens = Int32Array.from(numbers.get("tokens")!);
        const ours: { name: string; shape: number[]; data: Float32Array }[] = [];
        for (const adapted of [false, true]) {
          const policy = await loadNativePolicy({ dir: join(folder, "base"), ...(adapted && { lora: scaled(name) }) });
          for (let step = 0; step < 3; step++) {
            const pass = await policy.forward(line(tokens));
            await policy.backward(pass, { logprobs: Float32Array.of(0, ...numbers.get("weights")!) });
            await policy.step({ learningRate: 1e-2 });
          }
          const data = await allLogprobs(policyScores(policy), tokens);
          for (const kind of adapted ? ["ours-adapter", "ours-merged"] : ["ours-full"]) {
            await policy.save(join(folder, kind), { merge: kind === "ours-merged" });
            ours.push({ name: kind, shape: [tokens.length, vocab], data });
          }
          await policy.close();
        }
        await writeSafetensors(join(folder, "ours.safetensors"), ours);
      }
      const report = JSON.parse(run("check", root)) as Record<string, Record<string, number>>;
      for (const [name, kinds] of Object.entries(report)) {
        for (const [kind, difference] of Object.entries(kinds))
          expect(difference, `${name} ${kind}`).toBeLessThan(1e-4);
      }
      expect(Object.keys(report)).toEqual(cases);
    }, 900_000);
  },
);
