/** What `npm run demo` can teach: each task with its parts, and how what came of it is told. */
import type { Colors } from "picocolors/types";
import type { MultiTurnAgent } from "../../agent/multi-turn-agent.ts";
import type { Environment } from "../../environment/environment.ts";
import { StatesetError } from "../../error.ts";
import type { Evaluation } from "../../evaluation/evaluate.ts";
import type { EngineFlags } from "../../project/on-engine.ts";
import { rewardFunction } from "../../reward/define-reward.ts";
import type { RewardFunction } from "../../reward/reward-function.ts";
import type { TrainingOptions } from "../../training/config.ts";

/** What the agent learns from. "flipped" and "constant" show that it is the reward that teaches: worse with one, nothing with the other. */
export const demoRewards = ["polite", "success", "flipped", "constant"] as const;
export type DemoReward = (typeof demoRewards)[number];

export interface DemoTask {
  title: string;
  /** Beside "flipped" and "constant". */
  paidFor: DemoReward;
  /** A model of the user's own is larger than the bundled one, and may be quantised: an adapter is trained on it. */
  agent(options: EngineFlags & { model?: string }): MultiTurnAgent;
  training(): Environment;
  /** `few` for models that take their time. */
  heldOut(options: { few: boolean }): Environment;
  /** What is reported. */
  reward(): RewardFunction;
  /** What training pays, where that is more than what is reported. */
  pays?(): RewardFunction;
  settings: TrainingOptions & { steps: number };
  /** Of a model of the user's own; its rate is the one that suits its size. */
  ownModelSettings: TrainingOptions;
  /** Before and after, with 95% intervals. */
  table(before: Evaluation, after: Evaluation, colors: Colors): string[];
  /** The same numbers for --json. */
  measures(before: Evaluation, after: Evaluation): Record<string, unknown>;
  /** Which scenarios are shown side by side. */
  shown(before: Evaluation): readonly number[];
  /** Commands to go on with. */
  next(checkpoint: string): readonly string[];
}

/** The reward that training sees. */
export function trainingReward({ reward, pays, paidFor, title }: DemoTask, kind: DemoReward): RewardFunction {
  const own = (pays ?? reward)();
  if (kind === paidFor) return own;
  if (kind === "constant") return rewardFunction({ name: "constant" }, () => 0.5);
  if (kind === "flipped") {
    return rewardFunction({ name: "flipped" }, async (conversation, context) => {
      return -(await own.compute(conversation, context)).score;
    });
  }
  throw new StatesetError("INVALID_OPTION", `"${title}" has no reward "${kind}".`, {
    hint: `Valid here: ${paidFor}, flipped, constant.`,
  });
}
