import type { EngineConfig } from "@stateset-agents/engine";

/** What can be measured by itself. */
export const parts = {
  decode: ["decode1", "decode4", "decode16"],
  /** Sampling from weights kept smaller: theirs is the faster of f32 and bf16. */
  small: ["decode1Bf16", "decode4Bf16", "decode16Bf16", "decode1Int8", "decode4Int8", "decode16Int8"],
  /** Ours alone: steps of so many rows from weights in f32, bf16 and 8 bits. */
  rows: [
    ...["rows1", "rows8", "rows16", "rows48"],
    ...["rows1Bf16", "rows8Bf16", "rows16Bf16", "rows48Bf16"],
    ...["rows1Int8", "rows8Int8", "rows16Int8", "rows48Int8"],
  ],
  prefill: ["prefill"],
  train: ["trainFull", "trainLora", "sharedPrefix"],
  /** The step alone on what was just sampled for it, as in GRPO: theirs computes all of it. */
  reused: ["trainFullReused", "trainLoraReused"],
  memory: ["peakMemory"],
  /** The same with the optimiser's moments in bf16: theirs are f32. */
  moments: ["peakMemoryBf16"],
} as const;
export type PartName = keyof typeof parts;
export type Metric = (typeof parts)[PartName][number];

/** Tokens per second, and bytes of memory. */
export type Measurements = Partial<Record<Metric, number>>;

/** What the other side is compared by: it has no weights of 8 bits, and those of 16 are not always faster than those of 32. */
export function rival(metric: Metric, peer: Measurements): number | undefined {
  if (metric === "peakMemoryBf16") return peer.peakMemory;
  if (metric === "trainFullReused") return peer.trainFull;
  if (metric === "trainLoraReused") return peer.trainLora;
  const decode = /^(decode\d+)(Bf16|Int8)$/.exec(metric)?.[1] as "decode1" | undefined;
  return decode ? Math.max(peer[decode] ?? 0, peer[`${decode}Bf16`] ?? 0) : peer[metric];
}

/** The work, the same for both sides. Given to the Python side as JSON. */
export const work = {
  decodePrompt: 32,
  decodeTokens: 64,
  rows: [1, 8, 16, 48],
  prefillTokens: 512,
  trainSequences: 4,
  trainLength: 128,
  loraRank: 8,
  sharedPrompt: 900,
  sharedReplies: 16,
  sharedReplyLength: 64,
};

const starter: EngineConfig = {
  vocab: 8192,
  hidden: 320,
  layers: 8,
  heads: 10,
  kvHeads: 5,
  headDim: 32,
  inter: 864,
  maxPositions: 1024,
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

const gpt2Small: EngineConfig = {
  ...starter,
  vocab: 50_257,
  hidden: 768,
  layers: 12,
  heads: 12,
  kvHeads: 12,
  headDim: 64,
  inter: 3072,
  norm: "layer",
  mlp: "gelu-tanh",
  position: "learned",
  qkvBias: true,
  outBias: true,
  mlpBias: true,
};

export const shapes = {
  "gpt2-small": { config: gpt2Small, loraTargets: ["q", "k", "v"] },
  "starter-12m": { config: starter, loraTargets: ["q", "v"] },
} as const satisfies Record<string, { config: EngineConfig; loraTargets: readonly string[] }>;
export type ShapeName = keyof typeof shapes;
