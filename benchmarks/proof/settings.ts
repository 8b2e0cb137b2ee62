import type { AlgorithmConfig } from "stateset-agents/algorithms";
import { algorithmNames } from "../../packages/stateset-agents/src/algorithm/algorithms.ts";
import { defaultsStamp } from "../defaults.ts";
import type { Harvesting } from "./best-of-n.ts";
import { task } from "./task.ts";

/** Of the results on the page, in both parts. Nothing was tuned with them. */
export const seeds = [101, 102, 103, 104];
/** Of everything that was tried out. */
export const tuningSeeds = [1, 2];

/** Which algorithms are put to the proof: every one, at its defaults except where the size of the toy asks for another. */
export const algorithms: Record<string, AlgorithmConfig> = {
  ...Object.fromEntries(algorithmNames.map((algorithm) => [algorithm, { algorithm }])),
  // One round of sampling: more would give it seven times the conversations that the others have, since once all nine scenarios are solved there
  // is nothing else to sample.
  dapo: { algorithm: "dapo", maxSamplingRounds: 1 },
};

/** GRPO with four passes over every rollout, with its clip and without. */
export const clipPair = {
  clipped: { algorithm: "grpo" },
  unclipped: { algorithm: "grpo", epsilonLow: 0.9999, epsilonHigh: 1e6 },
} as const satisfies Record<string, AlgorithmConfig>;

/** The same for all of them; the rate falls by train()'s default schedule, so that its noise does not decide where a run ends. */
export const run = { steps: 300, groupsPerStep: 4, groupSize: 8, learningRate: 3e-3 } as const;

export const sampling = { temperature: 1, maxTokens: 8 };
/** Conversations per scenario before and after. */
export const evaluationSamples = 32;

/** Rates that SFT was tried with. */
export const triedRates = [1e-3, 3e-3, 1e-2, 3e-2];

/** As many conversations in all as the others have, rounded up, and twice as many updates: imitating oftener costs no samples, and it helps. */
function inRounds(rounds: number, keep: number, learningRate: number): Harvesting {
  const n = Math.ceil((run.steps * run.groupsPerStep * run.groupSize) / rounds / task.scenarios);
  return { rounds, keep, n, updates: (2 * run.steps) / rounds, learningRate };
}

/** SFT on best-of-N. How many are kept and at which rate is what served each of them best of several tried. */
export const baselines = {
  "sft-best-of-n": inRounds(1, 1, 1e-2),
  "sft-best-of-n-3": inRounds(3, 2, 1e-2),
  "sft-best-of-n-10": inRounds(10, 3, 3e-3),
} as const satisfies Record<string, Harvesting>;

/** The one that reinforcement has to beat. */
export const baseline = "sft-best-of-n" satisfies keyof typeof baselines;

/** What a learner was given. Results measured with other settings than these are not shown beside new ones. */
export function settingsOf({ learner }: { learner: string }): unknown {
  const own = { ...algorithms, ...clipPair, ...baselines }[learner];
  const algorithm = own && "algorithm" in own ? own.algorithm : undefined;
  return { task, run, sampling, evaluationSamples, own, defaults: defaultsStamp(algorithm) };
}
