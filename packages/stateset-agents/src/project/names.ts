/** What configuration files may name instead of building it in code. */
import { StatesetError } from "../error.ts";
import { ConcisenessReward } from "../reward/builtin/conciseness.ts";
import { CorrectnessReward } from "../reward/builtin/correctness.ts";
import { EngagementReward } from "../reward/builtin/engagement.ts";
import { EnvironmentReward } from "../reward/builtin/environment.ts";
import { HelpfulnessReward } from "../reward/builtin/helpfulness.ts";
import { PolitenessReward } from "../reward/builtin/politeness.ts";
import { SafetyReward } from "../reward/builtin/safety.ts";
import { TaskCompletionReward } from "../reward/builtin/task-completion.ts";
import { CompositeReward } from "../reward/composite-reward.ts";
import type { RewardFunction } from "../reward/reward-function.ts";
import type { Tracker } from "../run/tracker.ts";
import { didYouMean } from "../suggest.ts";
import { tensorBoardTracker } from "../telemetry/tensorboard.ts";
import { wandbTracker } from "../telemetry/wandb.ts";

export const presetNames = ["customerService", "technicalSupport", "sales"] as const;
export type PresetName = (typeof presetNames)[number];

export const trackerNames = ["tensorboard", "wandb"] as const;
export type TrackerName = (typeof trackerNames)[number];

/** "customer_service", "technical-support" and "techSupport" all mean a preset. */
export function presetNamed(name: string, where: string): PresetName {
  const plain = name.toLowerCase().replace(/[-_ ]/g, "");
  const aliases: Record<string, PresetName> = { support: "customerService", techsupport: "technicalSupport" };
  const found = presetNames.find((preset) => preset.toLowerCase() === plain) ?? aliases[plain];
  if (found) return found;
  throw new StatesetError("INVALID_OPTION", `Unknown preset "${name}" in ${where}.`, {
    hint: didYouMean(name, presetNames),
  });
}

export function trackerNamed(name: string, where: string): Tracker {
  switch (name) {
    case "tensorboard":
      return tensorBoardTracker();
    case "wandb":
      return wandbTracker();
    default:
      throw new StatesetError("INVALID_OPTION", `Unknown tracker "${name}" in ${where}.`, {
        hint: didYouMean(name, trackerNames),
      });
  }
}

const rewards = {
  politeness: PolitenessReward,
  conciseness: ConcisenessReward,
  helpfulness: HelpfulnessReward,
  safety: SafetyReward,
  engagement: EngagementReward,
  environment: EnvironmentReward,
  correctness: CorrectnessReward,
  taskCompletion: TaskCompletionReward,
} as const;

export type RewardName = keyof typeof rewards;
export const rewardNames = Object.keys(rewards) as RewardName[];
/** Weights by the names of built-in rewards. */
export type RewardWeights = Partial<Record<RewardName, number>>;

/** `{ politeness: 0.6, conciseness: 0.4 }` as one reward. */
export function rewardFromWeights(weights: Readonly<Record<string, unknown>>, where: string): RewardFunction {
  const parts = Object.entries(weights).map(([name, weight]) => {
    const known = rewardNames.find((candidate) => candidate.toLowerCase() === name.toLowerCase().replace(/[-_]/g, ""));
    if (!known)
      throw new StatesetError("INVALID_OPTION", `Unknown reward "${name}" in ${where}.`, {
        hint: didYouMean(name, rewardNames),
      });
    if (typeof weight !== "number")
      throw new StatesetError("INVALID_OPTION", `The weight of reward "${name}" in ${where} is not a number.`);
    return new rewards[known]({ weight });
  });
  return new CompositeReward(parts);
}
