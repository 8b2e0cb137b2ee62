/**
 * Damaged and hostile model folders, through the whole way into the engine: each either loads, samples and trains, or throws a
 * StatesetError. A crash of the native code would end the test process. Seeded, so that failures repeat.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { StatesetError } from "../src/error.ts";
import { openPolicy } from "../src/policy/open-policy.ts";
import { defaultSampling, type TokenTree } from "../src/policy/policy.ts";
import { createRandom, type Random } from "../src/random.ts";
import { architectures, makeTinyModel } from "./tiny-model.ts";

const tree: TokenTree = {
  tokens: Int32Array.of(5, 6, 7, 8, 7, 9),
  nodeStart: Int32Array.of(0, 2, 4, 6),
  nodeParent: Int32Array.of(-1, 0, 0),
  wanted: Uint8Array.of(0, 1, 1, 1, 1, 1),
};

/** Loads the folder and uses the model once in every way. */
async function exercise(dir: string, adapter: boolean): Promise<void> {
  const lora = { rank: 2, alpha: 4, dropout: 0, targetModules: "all-linear" as const };
  const policy = await openPolicy({ model: dir, threads: 1, ...(adapter && { lora }) });
  try {
    const sampling = { ...defaultSampling, maxTokens: 3 };
    await policy.sample([{ tokens: Int32Array.of(5, 6), sampling, seed: 1 }]);
    const pass = await policy.forward(tree, { entropy: true });
    await policy.backward(pass, { logprobs: new Float32Array(6).fill(-1) });
    await policy.step({ learningRate: 1e-3, clipNorm: 1 });
  } finally {
    await policy.close();
  }
}

async function attempt(
  counts: { fine: number; refused: number },
  label: string,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
    counts.fine++;
  } catch (error) {
    if (!StatesetError.isInstance(error)) throw new Error(`${label}: ${String(error)}`, { cause: error });
    counts.refused++;
  }
}

const oddNumbers = [0, 1, 2, 3, 7, 16, 255, 2 ** 20, 2 ** 31, 2 ** 53, -1, 0.5, 1e300, 1e-30];
const oddValues: unknown[] = [
  null,
  true,
  "4",
  [],
  {},
  { rope_type: "llama3" },
  { rope_type: "linear", factor: 0 },
  "gelu",
  "qwen3",
];

/** Changes one or two entries of config.json. */
function mutateConfig(config: Record<string, unknown>, random: Random): Record<string, unknown> {
  const copy = structuredClone(config);
  const keys = [
    ...Object.keys(copy),
    "rope_scaling",
    "sliding_window",
    "head_dim",
    "attention_bias",
    "tie_word_embeddings",
  ];
  for (let edits = 1 + random.below(2); edits > 0; edits--) {
    const key = keys[random.below(keys.length)]!;
    const choice = random.next();
    if (choice < 0.1) delete copy[key];
    else if (choice < 0.7) copy[key] = oddNumbers[random.below(oddNumbers.length)];
    else copy[key] = structuredClone(oddValues[random.below(oddValues.length)]);
  }
  return copy;
}

/** Overwrites, cuts or moves bytes: a third in the header, the rest in the numbers, where NaN and huge values appear. */
function mutateBytes(original: Buffer, random: Random): Buffer {
  const headerEnd = 8 + Number(original.readBigUInt64LE(0));
  const bytes = Buffer.from(original);
  const inHeader = random.next() < 0.33;
  const at = inHeader ? random.below(headerEnd) : headerEnd + random.below(bytes.length - headerEnd);
  const choice = random.below(4);
  if (choice === 0) bytes[at] = random.below(256);
  else if (choice === 1)
    bytes.writeUInt32LE(
      [0x7fc00000, 0x7f800000, 0x7f7fffff, 0xff7fffff][random.below(4)]!,
      Math.min(at, bytes.length - 4),
    );
  else if (choice === 2) return bytes.subarray(0, at);
  else bytes.copyWithin(at, random.below(bytes.length), random.below(bytes.length));
  return bytes;
}

describe("hostile model folders", () => {
  it.each(architectures)(
    "load and work, or are refused: mutated %s configurations and weights",
    async (architecture) => {
      const random = createRandom(architectures.indexOf(architecture) + 77);
      const dir = await makeTinyModel(architecture);
      const configFile = join(dir, "config.json");
      const weightsFile = join(dir, "model.safetensors");
      const config = JSON.parse(await readFile(configFile, "utf8")) as Record<string, unknown>;
      const weights = await readFile(weightsFile);
      const counts = { fine: 0, refused: 0 };
      for (let round = 0; round < 120; round++) {
        const label = `${architecture}, round ${round}`;
        const adapter = random.next() < 0.3;
        if (random.next() < 0.5) {
          const mutated = mutateConfig(config, random);
          await writeFile(configFile, JSON.stringify(mutated));
          await attempt(counts, `${label}: ${JSON.stringify(mutated)}`, () => exercise(dir, adapter));
          await writeFile(configFile, JSON.stringify(config));
        } else {
          await writeFile(weightsFile, mutateBytes(weights, random));
          await attempt(counts, label, () => exercise(dir, adapter));
          await writeFile(weightsFile, weights);
        }
      }
      expect(counts.fine).toBeGreaterThan(10);
      expect(counts.refused).toBeGreaterThan(20);
    },
  );
});
