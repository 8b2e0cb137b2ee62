/** The parts of `npm run demo`: a support agent that is to become polite and brief. */
import { MultiTurnAgent } from "../../agent/multi-turn-agent.ts";
import { ConversationEnvironment } from "../../environment/conversation-environment.ts";
import { customerService, technicalSupport } from "../../environment/preset/index.ts";
import { ConcisenessReward } from "../../reward/builtin/conciseness.ts";
import { PolitenessReward } from "../../reward/builtin/politeness.ts";
import { CompositeReward } from "../../reward/composite-reward.ts";
import { rewardFunction } from "../../reward/define-reward.ts";
import type { RewardFunction } from "../../reward/reward-function.ts";
import type { TrainingOptions } from "../../training/config.ts";

/** What the agent learns from. "flipped" and "constant" show that it is the reward that teaches: worse with one, nothing with the other. */
export const demoRewards = ["polite", "flipped", "constant"] as const;
export type DemoReward = (typeof demoRewards)[number];

/** A model of the user's own is larger than the bundled one, and may be quantised: an adapter is trained on it. */
export function demoAgent({ threads, model }: { threads?: number; model?: string } = {}): MultiTurnAgent {
  return new MultiTurnAgent({
    systemPrompt: "You are a helpful customer support agent.",
    sampling: { temperature: 0.9, maxTokens: model === undefined ? 64 : 48 },
    ...(threads !== undefined && { threads }),
    ...(model !== undefined && { model, lora: true }),
  });
}

/**
 * Scripted customers with orders, bills, crashes and accounts; three replies each. Held-out ones word the same troubles differently.
 * `every` leaves out all but one of so many.
 */
export function demoEnvironment({
  every = 1,
  ...options
}: {
  heldOut: boolean;
  every?: number;
}): ConversationEnvironment {
  const scenarios = [...customerService(options).scenarios, ...technicalSupport(options).scenarios];
  return new ConversationEnvironment({ scenarios: scenarios.filter((_, i) => i % every === 0), maxTurns: 3 });
}

/** Half for courtesy, half for at most ten words. */
export function demoReward(): RewardFunction {
  return new CompositeReward([
    new PolitenessReward({ weight: 0.5 }),
    new ConcisenessReward({ weight: 0.5, maxWords: 10 }),
  ]);
}

/** The reward that training sees; what is reported is always demoReward(). */
export function trainingReward(kind: DemoReward): RewardFunction {
  const reward = demoReward();
  if (kind === "polite") return reward;
  if (kind === "constant") return rewardFunction({ name: "constant" }, () => 0.5);
  return rewardFunction({ name: "flipped" }, async (conversation, context) => {
    return -(await reward.compute(conversation, context)).score;
  });
}

/** Of a model of the user's own, most likely ten times the size: half the conversations, so that a step takes seconds. */
export const ownModelSettings = { groupsPerStep: 2 } as const satisfies TrainingOptions;

export const demoSettings = {
  steps: 12,
  groupsPerStep: 4,
  groupSize: 8,
  learningRate: 2e-4,
  checkpoint: { every: 0 },
  trajectories: { every: 4 },
} as const satisfies TrainingOptions;
