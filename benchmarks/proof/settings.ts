import type { AlgorithmConfig } from "stateset-agents/algorithms";
import { task } from "./task.ts";

/** Which algorithms are put to the proof. Options are the defaults except where the size of the toy asks for another. */
export const algorithms: Record<string, AlgorithmConfig> = {
  grpo: { algorithm: "grpo" },
  "dr-grpo": { algorithm: "dr-grpo" },
  bnpo: { algorithm: "bnpo" },
  // Nearly all replies of the toy run into the token limit, so the overlong penalty would punish everything alike. One round of sampling: more
  // would give it more conversations than the others have, and once all nine scenarios are solved there is nothing else to sample.
  dapo: { algorithm: "dapo", overlongPenalty: 0, maxSamplingRounds: 1 },
  gspo: { algorithm: "gspo" },
  "gspo-token": { algorithm: "gspo-token" },
  gepo: { algorithm: "gepo" },
  cispo: { algorithm: "cispo" },
  // 50 steps of critic warm-up would be a sixth of the run. α 0.05 is meant for thousands of tokens: at the toy's 16 it would make λ 0; this makes it 0.95.
  vapo: { algorithm: "vapo", valueWarmupSteps: 10, lengthAlpha: 1.25 },
  ppo: { algorithm: "ppo" },
  a2c: { algorithm: "a2c" },
  trpo: { algorithm: "trpo" },
  rloo: { algorithm: "rloo" },
  reinforce: { algorithm: "reinforce" },
  "reinforce++": { algorithm: "reinforce++" },
};

/** The same for all of them; the rate falls by train()'s default schedule, so that its noise does not decide where a run ends. */
export const run = {
  steps: 300,
  groupsPerStep: 4,
  groupSize: 8,
  learningRate: 3e-3,
  schedule: "cosine",
  warmup: 0.05,
  finalLearningRateShare: 0.1,
} as const;

export const sampling = { temperature: 1, maxTokens: 8 };
/** Conversations per scenario before and after. */
export const evaluationSamples = 32;

export interface Harvesting {
  rounds: number;
  /** Of each scenario in a round: how many are sampled, and how many of those are imitated. */
  n: number;
  keep: number;
  /** Of the optimiser, in a round. */
  updates: number;
}

/** As many conversations in all as the others have, rounded up, and twice as many updates: imitating oftener costs no samples, and it helps. */
function inRounds(rounds: number, keep: number): Harvesting {
  const conversations = run.steps * run.groupsPerStep * run.groupSize;
  return { rounds, keep, n: Math.ceil(conversations / rounds / task.scenarios), updates: (2 * run.steps) / rounds };
}

/** SFT on best-of-N. How many are kept is what served each of them best of several numbers tried. */
export const baselines = {
  "sft-best-of-n": inRounds(1, 1),
  "sft-best-of-n-10": inRounds(10, 3),
  "sft-best-of-n-50": inRounds(50, 2),
} as const satisfies Record<string, Harvesting>;

/** The one that reinforcement has to beat. */
export const baseline = "sft-best-of-n" satisfies keyof typeof baselines;

/** Rows measured with other settings than these are not shown beside new ones. */
export const settings = { task, algorithms, run, sampling, evaluationSamples, baselines };
