import type { EngineConfig } from "@stateset-agents/engine";

/** What both sides measure. */
export const metrics = [
  "decode1",
  "decode4",
  "decode16",
  "prefill",
  "trainFull",
  "trainLora",
  "sharedPrefix",
  "peakMemory",
] as const;
export type Metric = (typeof metrics)[number];

/** Tokens per second, and bytes for peakMemory. */
export type Measurements = Partial<Record<Metric, number>>;

/** The work, the same for both sides. Given to the Python side as JSON. */
export const work = {
  decodePrompt: 32,
  decodeTokens: 64,
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
