import { StatesetError } from "../error.ts";
import { didYouMean } from "../suggest.ts";
import type { TrainingOptions } from "./config.ts";

export const profileNames = ["conservative", "balanced", "aggressive", "experimental"] as const;
export type ProfileName = (typeof profileNames)[number];
export const defaultProfile: ProfileName = "balanced";

export interface Profile {
  description: string;
  options: TrainingOptions;
  /** On the learning rate that suits the model's size. */
  learningRateScale: number;
}

/** Starting points; whatever the user gives wins over them. */
export const profiles: Record<ProfileName, Profile> = {
  conservative: {
    description: "Small steps near the starting model: for runs that must not diverge.",
    options: { clipNorm: 0.5, warmup: 0.1, kl: { coefficient: 0.05 } },
    learningRateScale: 0.4,
  },
  balanced: {
    description: "The defaults.",
    options: {},
    learningRateScale: 1,
  },
  aggressive: {
    description: "Larger steps and two passes over every rollout: faster, and closer to instability.",
    options: { updatesPerRollout: 2, warmup: 0.02, sampling: { temperature: 1.1 } },
    learningRateScale: 2,
  },
  experimental: {
    description: "Several minibatches, an entropy bonus and larger groups: for research.",
    options: { updatesPerRollout: 2, minibatches: 2, groupSize: 16, entropyBonus: 0.002 },
    learningRateScale: 2,
  },
};

export const taskNames = ["customer_service", "technical_support", "sales", "tools", "conversational"] as const;
export type TaskName = (typeof taskNames)[number];

/** What suits the length and the noise of a kind of conversation. */
const tasks: Record<TaskName, TrainingOptions> = {
  customer_service: { groupSize: 8, maxTurns: 8, sampling: { maxTokens: 96 }, kl: { coefficient: 0.01 } },
  technical_support: { groupSize: 8, maxTurns: 12, sampling: { maxTokens: 160 }, kl: { coefficient: 0.01 } },
  sales: { groupSize: 12, maxTurns: 10, sampling: { maxTokens: 128 }, entropyBonus: 0.001 },
  // Every call is a reply of its own, and a call with its arguments is short. What needs two calls is rare at first, and lost for good where
  // the policy settles on one: so groups are large enough to hold it, and no second pass pushes further what came up most.
  tools: { groupSize: 16, groupsPerStep: 8, maxTurns: 12, sampling: { maxTokens: 128 } },
  conversational: { groupSize: 8, maxTurns: 8, sampling: { maxTokens: 128 } },
};

/** Options for a kind of task, to be spread into train(): `train({ ...configForTask("sales"), agent, … })`. */
export function configForTask(task: TaskName | (string & {}), overrides: TrainingOptions = {}): TrainingOptions {
  const name = task.replace(/[- ]/g, "_").replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
  if (!Object.hasOwn(tasks, name)) {
    throw new StatesetError("INVALID_OPTION", `No configuration for the task "${task}".`, {
      hint: didYouMean(name, taskNames),
    });
  }
  const base = tasks[name as TaskName];
  return {
    ...base,
    ...overrides,
    ...((base.sampling || overrides.sampling) && { sampling: { ...base.sampling, ...overrides.sampling } }),
    ...((base.kl || overrides.kl) && { kl: { ...base.kl, ...overrides.kl } }),
  };
}
