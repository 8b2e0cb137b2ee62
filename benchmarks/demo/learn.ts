/** The ways the demo's agent is taught: by GRPO as in `npm run demo`, and by imitating the best of as many conversations. */
import {
  type Agent,
  chainsOf,
  harvestBestOfN,
  type RewardFunction,
  seedOf,
  train,
  trainSupervised,
} from "stateset-agents";
import { demoEnvironment, demoSettings } from "../../packages/stateset-agents/src/cli/demo/parts.ts";
import { learningRateAt } from "../../packages/stateset-agents/src/learning/optimiser.ts";

export interface Lesson {
  agent: Agent;
  reward: RewardFunction;
  steps: number;
  seed: number;
}

/** Teaches and returns how many conversations were sampled for it. */
type Learn = (lesson: Lesson) => Promise<number>;

/** Updates is what served each best of several numbers tried (12, 36, 100; 6, 12 a round). */
export const harvests = {
  "sft-best-of-n": { rounds: 1, keep: 1, updates: 36 },
  "sft-best-of-n-4": { rounds: 4, keep: 1, updates: 6 },
} as const;

export const ways = {
  grpo: byGrpo,
  "sft-best-of-n": byBestOfN(harvests["sft-best-of-n"]),
  "sft-best-of-n-4": byBestOfN(harvests["sft-best-of-n-4"]),
} as const satisfies Record<string, Learn>;

export type Way = keyof typeof ways;

const perStep = demoSettings.groupsPerStep * demoSettings.groupSize;

/** Conversations of each scenario in a round: as many in all as GRPO samples, rounded up. */
export function samplesPerScenario(rounds: number, steps: number): number {
  return Math.ceil((steps * perStep) / rounds / demoEnvironment({ heldOut: false }).scenarios.length);
}

async function byGrpo({ agent, reward, steps, seed }: Lesson): Promise<number> {
  const environment = demoEnvironment({ heldOut: false });
  const { run } = await train({ ...demoSettings, steps, seed, agent, environment, reward, dir: false });
  return run.metrics.reduce((sum, metrics) => sum + (metrics.conversations ?? 0), 0);
}

function byBestOfN({ rounds, keep, updates }: { rounds: number; keep: number; updates: number }): Learn {
  return async ({ agent, reward, steps, seed }) => {
    let conversations = 0;
    for (let round = 0; round < rounds; round++) {
      const { kept, report } = await harvestBestOfN({
        agent,
        environment: demoEnvironment({ heldOut: false }),
        reward,
        n: samplesPerScenario(rounds, steps),
        keep,
        seed: seedOf(seed, "harvest", round),
      });
      conversations += report.completed;
      if (kept.length === 0) continue;
      const { learningRate } = demoSettings;
      const falling = {
        steps: rounds,
        learningRate,
        schedule: "cosine",
        warmup: 0,
        finalLearningRateShare: 0.1,
      } as const;
      await trainSupervised({
        agent,
        examples: chainsOf(kept),
        dir: false,
        epochs: Math.ceil(updates / Math.ceil(kept.length / perStep)),
        batchSize: perStep,
        // In one round the rate falls over the updates, in several over the rounds.
        learningRate: learningRateAt(round + 1, falling),
        schedule: rounds === 1 ? "cosine" : "constant",
        seed: seedOf(seed, "sft", round),
      });
    }
    return conversations;
  };
}
