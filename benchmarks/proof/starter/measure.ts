import { ConversationEnvironment, evaluate, MultiTurnAgent, type RewardFunction, train } from "stateset-agents";
import type { AlgorithmName } from "../../../packages/stateset-agents/src/algorithm/algorithms.ts";
import { resolveConfig } from "../../../packages/stateset-agents/src/training/config.ts";
import { imitateBestOfN } from "../best-of-n.ts";
import { meanOf } from "../measure.ts";
import {
  conversationsPerStep,
  evaluationSamples,
  harvestingOf,
  passes,
  rates,
  steps as stepsOf,
  systemPrompt,
  tunedRate,
} from "./settings.ts";
import { maxTokens, type StarterTask, type TaskName, taskReward, tasks, turnReward } from "./tasks.ts";

/** How a run learns. */
export type Learner =
  | { by: "nothing" }
  /** With nothing said but the steps and how many turns a conversation has. */
  | { by: "defaults"; algorithm: AlgorithmName }
  /** With a rate found by trials, as the baselines have it; all else at its default. */
  | { by: "tuned"; algorithm: AlgorithmName; rate: number }
  /** With several passes and the same group size for all, so that their losses alone differ; `credit`: each turn has its own reward. */
  | { by: "passes"; algorithm: AlgorithmName; updatesPerRollout: number; credit?: "turn" }
  | { by: "best-of-n"; rounds: number; rate: number };

export interface StarterJob {
  part: "starter";
  task: TaskName;
  learner: Learner;
  seed: number;
  sign: 1 | -1;
  /** In place of the task's own, for a quick look. */
  steps?: number;
}

export interface StarterResult {
  /** Mean score of each held-out scenario, in their order. */
  scenarios: number[];
  updates: number;
  conversations: number;
  /** Means over the steps, where the algorithm has them. */
  clipFraction?: number;
  approxKl?: number;
}

type Learnt = Omit<StarterResult, "scenarios">;

/** Trains the starter model and measures it on held-out scenarios. The same conversations' seeds for every run: they are compared in pairs. */
export async function measureStarter(job: StarterJob): Promise<StarterResult> {
  const task = tasks[job.task];
  const agent = new MultiTurnAgent({ systemPrompt, sampling: { maxTokens }, threads: 1 });
  await agent.initialize();
  const learnt = await learn(agent, job);
  const { scenarios } = await evaluate({
    agent,
    environment: environmentOf(task, "heldOut"),
    reward: taskReward(task),
    samples: evaluationSamples[job.learner.by === "nothing" ? "untrained" : "trained"],
    seed: 0,
  });
  await agent.close();
  return { scenarios: scenarios.map(({ mean }) => Number(mean.toFixed(4))), ...learnt };
}

function environmentOf(task: StarterTask, which: "training" | "heldOut"): ConversationEnvironment {
  return new ConversationEnvironment({ scenarios: task[which], maxTurns: task.maxTurns });
}

async function learn(agent: MultiTurnAgent, job: StarterJob): Promise<Learnt> {
  const { task: name, learner, seed, sign, steps = stepsOf[name] } = job;
  const task = tasks[name];
  const environment = environmentOf(task, "training");
  const reward = taskReward(task, sign);
  const { maxTurns } = task;
  switch (learner.by) {
    case "nothing":
      return { updates: 0, conversations: 0 };
    case "best-of-n": {
      const plan = { agent, environment, reward, seed, batchSize: conversationsPerStep };
      const { sampled: _, ...counts } = await imitateBestOfN(harvestingOf(name, learner.rounds, learner.rate), plan);
      return counts;
    }
    case "defaults":
      return reinforced({ agent, environment, reward, seed, steps, maxTurns, algorithm: learner.algorithm });
    case "tuned": {
      const { algorithm, rate } = learner;
      return reinforced({ agent, environment, reward, seed, steps, maxTurns, algorithm, learningRate: rate });
    }
    case "passes": {
      const { algorithm, updatesPerRollout, credit } = learner;
      const common = { agent, environment, seed, steps, maxTurns, updatesPerRollout, groupSize: 8 };
      return credit
        ? reinforced({ ...common, reward: turnReward(task, sign), algorithm: "gspo-token", credit })
        : reinforced({ ...common, reward, algorithm });
    }
  }
}

async function reinforced(options: Parameters<typeof train>[0] & { reward: RewardFunction }): Promise<Learnt> {
  const { run } = await train({ ...options, dir: false });
  const [clipFraction, approxKl] = [meanOf(run.metrics, "clipFraction"), meanOf(run.metrics, "approxKl")];
  return {
    updates: run.metrics.at(-1)?.optimiserSteps ?? 0,
    // Those of refused groups (DAPO) were sampled too.
    conversations: run.metrics.reduce(
      (sum, { conversations = 0, refusedGroups = 0 }) =>
        sum + conversations + refusedGroups * resolveConfig().groupSize,
      0,
    ),
    ...(Number.isFinite(clipFraction) && { clipFraction: Number(clipFraction.toPrecision(4)) }),
    ...(Number.isFinite(approxKl) && { approxKl: Number(approxKl.toPrecision(4)) }),
  };
}

/** The one task that has more passes than one; GSPO-token a second time with the reward turn by turn, where it differs from GSPO. */
export const passLearners: readonly Learner[] = [
  ...(["grpo", "gspo", "gspo-token"] as const).map((algorithm) => ({
    by: "passes" as const,
    algorithm,
    updatesPerRollout: 1,
  })),
  ...passes.algorithms.map((algorithm) => ({
    by: "passes" as const,
    algorithm,
    updatesPerRollout: passes.updatesPerRollout,
  })),
  { by: "passes", algorithm: "gspo-token", updatesPerRollout: passes.updatesPerRollout, credit: "turn" },
];

export const tunedLearner: Learner = { by: "tuned", algorithm: "grpo", rate: tunedRate };

export const baselineLearner = (inRounds: number): Learner => ({
  by: "best-of-n",
  rounds: inRounds,
  rate: rates[inRounds]!,
});

export function learnerName(learner: Learner): string {
  switch (learner.by) {
    case "nothing":
      return "untrained";
    case "best-of-n":
      return `sft-best-of-n, ${learner.rounds} round${learner.rounds === 1 ? "" : "s"}`;
    case "defaults":
      return learner.algorithm;
    case "tuned":
      return `${learner.algorithm}, tuned rate`;
    case "passes":
      return `${learner.algorithm}${learner.credit ? `, credit by ${learner.credit}` : ""} × ${learner.updatesPerRollout}`;
  }
}
