import { afterEach, describe, expect, it } from "vitest";
import { readVector } from "../../../test/read-vector.ts";
import { makeTinyModel, storiesDir } from "../../../test/tiny-model.ts";
import { StatesetError } from "../../error.ts";
import { defaultSampling, type Policy, type Sample, type TokenTree } from "../policy.ts";
import { loadNativePolicy, type NativePolicyOptions } from "./load.ts";

const temperature = 0.9;

afterEach(() => {
  delete process.env.STATESET_SIMD;
});

/** With that set of vector instructions; undefined where the machine has none such. */
async function loadWith(simd: string, options: NativePolicyOptions): Promise<Policy | undefined> {
  process.env.STATESET_SIMD = simd;
  try {
    return await loadNativePolicy(options);
  } catch (error) {
    if (StatesetError.isInstance(error) && /this machine cannot run/.test(error.message)) return undefined;
    throw error;
  }
}

function promptsOf(count: number, shared: boolean): Int32Array[] {
  return Array.from({ length: count }, (_, member) =>
    Int32Array.from({ length: 21 }, (_, i) => ((shared && i < 18 ? 0 : member * 13) + i * 29 + 4) % 512),
  );
}

function sampleAll(policy: Policy, prompts: readonly Int32Array[]): Promise<Sample[]> {
  const sampling = { ...defaultSampling, temperature, maxTokens: 6 };
  return policy.sample(prompts.map((tokens, seed) => ({ tokens, sampling, seed })));
}

/** All sequences as separate roots, or under their common prefix. */
function treeOf(prompts: readonly Int32Array[], samples: readonly Sample[], prefix: number): TokenTree {
  const head = prompts[0]!.slice(0, prefix);
  const rests = prompts.map((prompt, i) => Int32Array.of(...prompt.slice(prefix), ...samples[i]!.tokens));
  const nodes = prefix > 0 ? [head, ...rests] : rests;
  const starts = [0];
  for (const node of nodes) starts.push(starts.at(-1)! + node.length);
  return {
    tokens: Int32Array.from(nodes.flatMap((node) => [...node])),
    nodeStart: Int32Array.from(starts),
    nodeParent: Int32Array.from(nodes, (_, i) => (prefix > 0 && i > 0 ? 0 : -1)),
    wanted: new Uint8Array(starts.at(-1)!).fill(1),
  };
}

/** The scores of the sampled tokens, sequence after sequence. */
async function scoreAll(policy: Policy, prompts: readonly Int32Array[], samples: readonly Sample[], prefix: number) {
  const tree = treeOf(prompts, samples, prefix);
  const { logprobs } = await policy.forward(tree, { grad: false, temperature });
  return samples.map(({ tokens }, i) => {
    const end = tree.nodeStart[i + (prefix > 0 ? 2 : 1)]!;
    return logprobs.slice(end - tokens.length, end);
  });
}

const models = [
  ["stories260K", [1, 2], async () => storiesDir],
  ["a GPT-2", [2], () => makeTinyModel("gpt2")],
  ["a Mistral with a short window", [2], () => makeTinyModel("mistral")],
  ["a Qwen3", [2], () => makeTinyModel("qwen3")],
] as const;

describe.each(models)("the log-probs of %s", (_, threadCounts, makeModel) => {
  it("are the same bits for any batch, thread count, prefix sharing and set of vector instructions, sampling or scoring", async () => {
    const dir = await makeModel();
    const expected = new Map<string, Sample[]>();
    const tried: string[] = [];
    for (const simd of ["scalar", "avx2", "avx512", "neon", "amx"]) {
      for (const threads of threadCounts) {
        const policy = await loadWith(simd, { dir, threads });
        if (!policy) continue;
        tried.push(simd);
        for (const count of [1, 3, 16, 40]) {
          for (const shared of [false, true]) {
            const prompts = promptsOf(count, shared);
            const samples = await sampleAll(policy, prompts);
            const recorded = samples.map(({ logprobs }) => logprobs);
            expect(await scoreAll(policy, prompts, samples, 0)).toEqual(recorded);
            if (shared && count > 1) expect(await scoreAll(policy, prompts, samples, 18)).toEqual(recorded);
            // The AMX unit rounds differently from the vector instructions, in the last bits; with itself it agrees like the others.
            const key = `${simd === "amx"} ${count} ${shared}`;
            // How long a sample waited is no part of it.
            const drawn = samples.map(({ queuedMs: _, ...rest }) => rest);
            expected.set(key, expected.get(key) ?? drawn);
            expect(drawn).toEqual(expected.get(key));
          }
        }
        await policy.close();
      }
    }
    expect(tried).toContain("scalar");
    // The scalar path has no fused multiply-add of its own and is slow.
  }, 300_000);
});

describe("training", () => {
  it("gives the same weights with one thread and with two", async () => {
    const trained = async (threads: number) => {
      const policy = await loadNativePolicy({ dir: storiesDir, threads });
      const prompts = promptsOf(5, true);
      const tree = treeOf(prompts, await sampleAll(policy, prompts), 18);
      for (let step = 0; step < 3; step++) {
        const pass = await policy.forward(tree, { entropy: true });
        const derivative = (scale: number) => Float32Array.from(tree.tokens, (_, i) => Math.sin(i) * scale);
        await policy.backward(pass, { logprobs: derivative(0.1), entropy: derivative(0.01) });
        await policy.step({ learningRate: 1e-3, clipNorm: 1 });
      }
      const weights = await readVector(policy, "parameters");
      await policy.close();
      return weights;
    };
    expect(Buffer.compare(bytes(await trained(1)), bytes(await trained(2)))).toBe(0);
  });

  it("gives the same gradient with and without recomputing layers", async () => {
    const policy = await loadNativePolicy({ dir: storiesDir });
    const prompts = promptsOf(3, true);
    const tree = treeOf(prompts, await sampleAll(policy, prompts), 18);
    const gradient = async (recompute: boolean) => {
      await policy.zeroGradients();
      const pass = await policy.forward(tree, { recompute });
      await policy.backward(pass, { logprobs: Float32Array.from(tree.tokens, (_, i) => Math.cos(i)) });
      return readVector(policy, "gradients");
    };
    expect(Buffer.compare(bytes(await gradient(true)), bytes(await gradient(false)))).toBe(0);
    await policy.close();
  });
});

function bytes(data: Float32Array): Uint8Array {
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}
