import {
  type Agent,
  chainsOf,
  type Environment,
  harvestBestOfN,
  type RewardFunction,
  seedOf,
  trainSupervised,
} from "stateset-agents";
import { learningRateAt } from "../../packages/stateset-agents/src/learning/optimiser.ts";
import { resolveConfig } from "../../packages/stateset-agents/src/training/config.ts";

export interface Harvesting {
  rounds: number;
  /** Of each scenario in a round: how many are sampled, and how many of those are imitated. */
  n: number;
  keep: number;
  /** Of the optimiser, in a round. */
  updates: number;
  learningRate: number;
}

export interface HarvestPlan {
  agent: Agent;
  environment: Environment;
  reward: RewardFunction;
  seed: number;
  /** Conversations an update learns from, at most. */
  batchSize: number;
}

export interface Imitated {
  /** Mean reward of what was sampled, by round. */
  sampled: number[];
  updates: number;
  conversations: number;
}

/**
 * Imitates the best of N samples. In one round all of them come from the untrained model; in several, each round samples from what the one
 * before has made. The rate falls over the rounds as it does over the steps of train().
 */
export async function imitateBestOfN(
  { rounds, n, keep, updates: perRound, learningRate }: Harvesting,
  { agent, environment, reward, seed, batchSize }: HarvestPlan,
): Promise<Imitated> {
  const result: Imitated = { sampled: [], updates: 0, conversations: 0 };
  const falling = { ...resolveConfig(), steps: rounds, learningRate };
  for (let round = 0; round < rounds; round++) {
    const harvest = { n, keep, seed: seedOf(seed, "harvest", round) };
    const { kept, sampledReward, report } = await harvestBestOfN({ agent, environment, reward, ...harvest });
    result.sampled.push(sampledReward);
    result.conversations += report.completed;
    // Once every sample is equally good there is nothing to choose from.
    if (kept.length === 0) continue;
    // A conversation whose reply was cut at the token limit has a chain of tokens for each reply.
    const examples = chainsOf(kept);
    const size = Math.min(examples.length, batchSize);
    const { steps } = await trainSupervised({
      agent,
      examples,
      dir: false,
      epochs: Math.ceil(perRound / Math.ceil(examples.length / size)),
      batchSize: size,
      seed: seedOf(seed, "sft", round),
      ...(rounds === 1
        ? { learningRate }
        : { learningRate: learningRateAt(round + 1, falling), schedule: "constant", warmup: 0 }),
    });
    result.updates += steps;
  }
  return result;
}
