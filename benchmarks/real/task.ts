import { type ConversationScenario, type RewardFunction, rewardFunction, type TrainingOptions } from "stateset-agents";
import { jsonReward, jsonScenarios } from "./json-task.ts";
import { mathReward, mathScenarios } from "./math-task.ts";

/** A question with one answer that code can check. */
export interface RealScenario extends ConversationScenario {
  metadata: Record<string, unknown>;
}

export interface RealTask {
  title: string;
  /** What the model may say at most. */
  maxTokens: number;
  reward: RewardFunction;
  /** Reward from which an answer counts as right. */
  passes: number;
  training: () => RealScenario[];
  /** What settings were chosen with. */
  tuning: () => RealScenario[];
  /** By name of the set. */
  tests: Readonly<Record<string, () => RealScenario[]>>;
  /** The settings that were chosen. */
  variant: VariantName;
  /** Beside `lora: true` and train()'s defaults. */
  options: TrainingOptions & { steps: number };
}

/** What was tried with seed 1 on the scenarios for tuning. Beside `lora: true`, train()'s defaults and the task's own options. */
export const variants = {
  default: {},
  "lr5e-4": { learningRate: 5e-4 },
  "lr1e-3": { learningRate: 1e-3 },
  "lr5e-4-t.7": { learningRate: 5e-4, sampling: { temperature: 0.7 } },
  "lr5e-4-g16": { learningRate: 5e-4, groupSize: 16 },
} as const satisfies Record<string, TrainingOptions>;
export type VariantName = keyof typeof variants;

const data = () => process.env.STATESET_REAL_DATA;

export const tasks = {
  json: {
    title: "a customer's message becomes a JSON object with the keys asked for",
    maxTokens: 64,
    reward: jsonReward,
    passes: 1,
    training: () => jsonScenarios("training", 200),
    tuning: () => jsonScenarios("tuning", 20),
    tests: {
      "held-out messages": () => jsonScenarios("heldOut", 40),
      "held-out schemas": () => jsonScenarios("newSchemas", 40),
    },
    variant: "default",
    options: { steps: 40 },
  },
  math: {
    title: "the last step of word problems that take two (GSM8K)",
    maxTokens: 48,
    reward: mathReward,
    passes: 1,
    training: () => mathScenarios("training", 1000, data()),
    tuning: () => mathScenarios("tuning", 40, data()),
    tests: { "held-out problems": () => mathScenarios("heldOut", 100, data()) },
    variant: "default",
    options: { steps: 40 },
  },
} as const satisfies Record<string, RealTask>;
export type TaskName = keyof typeof tasks;

/** The reward, or with sign -1 what takes it away: 1 − reward. */
export function signed(reward: RewardFunction, sign: 1 | -1): RewardFunction {
  if (sign === 1) return reward;
  return rewardFunction({ name: `not ${reward.name}` }, async (conversation) => {
    const { score } = await reward.compute(conversation);
    return 1 - score;
  });
}
