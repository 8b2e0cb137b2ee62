/** A small model with random weights, closed when the test is done. */
import { afterEach } from "vitest";
import { type Model, openModel } from "../src/model.ts";
import type { EngineConfig, OpenOptions, SampledReply, SampleOptions } from "../src/native.ts";

export const config: EngineConfig = {
  vocab: 64,
  hidden: 32,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 8,
  inter: 48,
  maxPositions: 512,
  norm: "rms",
  normEps: 1e-5,
  mlp: "swiglu",
  position: "rope",
  ropeTheta: 10_000,
  ropeScaling: undefined,
  tied: true,
  qkvBias: false,
  outBias: false,
  mlpBias: false,
  qkNorm: false,
  slidingWindow: undefined,
};

const open: Model[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((model) => model.close()));
});

/** Random weights; norm weights are around one. */
export function noise(name: string, count: number, seed = 7): Float32Array {
  let state = seed;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state / 2 ** 32 - 0.5) * 0.6 + (name.endsWith("norm.weight") ? 1 : 0);
  });
}

export async function randomModel(
  options: Partial<OpenOptions> = {},
  changes: Partial<EngineConfig> = {},
): Promise<Model> {
  const model = await openModel({ ...config, ...changes }, { threads: 2, slots: 8, cacheBytes: 1e8, ...options });
  open.push(model);
  for (const [index, { name, rows, cols }] of (await model.tensors()).entries()) {
    await model.setTensor(name, noise(name, rows * cols, index + 1));
  }
  return model;
}

export const tokens = (length: number, offset = 0) => Int32Array.from({ length }, (_, i) => (i * 11 + 5 + offset) % 64);

export const request = (prompt: Int32Array, seed = 1, maxTokens = 10): SampleOptions => ({
  tokens: prompt,
  temperature: 1,
  topP: 1,
  topK: 0,
  minP: 0,
  repetitionPenalty: 1,
  maxTokens,
  stopTokens: new Int32Array(),
  seed,
});

export const sample = (model: Model, options: SampleOptions): Promise<SampledReply> => model.sample(options).reply;
