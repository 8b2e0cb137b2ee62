import type { AlgorithmConfig } from "stateset-agents";

/** Which algorithms are put to the proof. Options are the defaults except where the size of the toy asks for another. */
export const algorithms: Record<string, AlgorithmConfig> = {
  grpo: { algorithm: "grpo" },
  "dr-grpo": { algorithm: "dr-grpo" },
  bnpo: { algorithm: "bnpo" },
  // Nearly all replies of the toy run into the token limit, so the overlong penalty would punish everything alike.
  dapo: { algorithm: "dapo", overlongPenalty: 0 },
  gspo: { algorithm: "gspo" },
  "gspo-token": { algorithm: "gspo-token" },
  gepo: { algorithm: "gepo" },
  cispo: { algorithm: "cispo" },
  // 50 steps of critic warm-up would be most of the run. α 0.05 is meant for thousands of tokens: at the toy's 16 it would make λ 0; this makes it 0.95.
  vapo: { algorithm: "vapo", valueWarmupSteps: 10, lengthAlpha: 1.25 },
  ppo: { algorithm: "ppo" },
  a2c: { algorithm: "a2c" },
  trpo: { algorithm: "trpo" },
  rloo: { algorithm: "rloo" },
  reinforce: { algorithm: "reinforce" },
  "reinforce++": { algorithm: "reinforce++" },
};

/** The same for all of them. */
export const run = {
  steps: 100,
  groupsPerStep: 4,
  groupSize: 8,
  learningRate: 5e-3,
  schedule: "constant",
  warmup: 0,
} as const;

export const sampling = { temperature: 1, maxTokens: 8 };
/** Conversations per scenario before and after. */
export const evaluationSamples = 32;

/** SFT on best-of-N: as many conversations in all as the others sample (10 × 4 × 80). */
export const harvest = { rounds: 10, n: 80, keep: 10, epochs: 3, batchSize: 16 };
