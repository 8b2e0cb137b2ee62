/** The parts of `npm run demo`: a support agent that is to become polite and brief. */
import { MultiTurnAgent } from "../../agent/multi-turn-agent.ts";
import { ConversationEnvironment } from "../../environment/conversation-environment.ts";
import { customerService, technicalSupport } from "../../environment/preset/index.ts";
import { type EngineFlags, onEngine } from "../../project/on-engine.ts";
import { ConcisenessReward } from "../../reward/builtin/conciseness.ts";
import { PolitenessReward } from "../../reward/builtin/politeness.ts";
import { CompositeReward } from "../../reward/composite-reward.ts";
import type { RewardFunction } from "../../reward/reward-function.ts";
import type { TrainingOptions } from "../../training/config.ts";
import type { DemoTask } from "./demo-task.ts";
import { comparisonTable, measuresOf } from "./report.ts";

export function demoAgent({ model, ...engine }: EngineFlags & { model?: string } = {}): MultiTurnAgent {
  return new MultiTurnAgent({
    systemPrompt: "You are a helpful customer support agent.",
    sampling: { temperature: 0.9, maxTokens: model === undefined ? 64 : 48 },
    ...onEngine({}, engine),
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

export const politeTask: DemoTask = {
  title: "A support agent learns to be polite and brief",
  paidFor: "polite",
  agent: demoAgent,
  training: () => demoEnvironment({ heldOut: false }),
  heldOut: ({ few }) => demoEnvironment({ heldOut: true, ...(few && { every: 3 }) }),
  reward: demoReward,
  settings: demoSettings,
  ownModelSettings,
  table: (before, after, colors) => comparisonTable(measuresOf(before), measuresOf(after), colors),
  measures(before, after) {
    const [first, last] = [measuresOf(before), measuresOf(after)];
    return {
      politeness: { before: first.politeness.mean, after: last.politeness.mean },
      wordsPerReply: { before: first.words.mean, after: last.words.mean },
    };
  },
  shown: ({ groups }) => [0, groups.length - 1],
  next: (checkpoint) => [
    `npx stateset-agents chat --checkpoint ${checkpoint}`,
    `npx stateset-agents evaluate --checkpoint ${checkpoint} --message "Where is my order?"`,
    "npx stateset-agents init my-agent",
  ],
};
