/** What the cases share. */
import { type Environment, type RewardFunction, rewardFunction, type TrainingOptions } from "stateset-agents";
import type { AlgorithmConfig } from "stateset-agents/algorithms";
import type { VerdictKind } from "stateset-agents/telemetry";
import { perReply, within } from "./rewards.ts";
import { supportLines, type Where } from "./scenarios.ts";

export interface Case {
  set: "tuning" | "proof";
  seed: number;
  environment: (where: Where) => Environment;
  reward: RewardFunction;
  /** What is measured before and after on held-out users. Left out: the reward itself. */
  wanted?: RewardFunction;
  settings?: TrainingOptions & Partial<AlgorithmConfig>;
  /** Empty: the run is healthy. */
  expected: readonly VerdictKind[];
}

/** What a user would choose for the starter model; the demo does. */
export const usual = {
  steps: 16,
  groupsPerStep: 4,
  groupSize: 8,
  learningRate: 2e-4,
  sampling: { temperature: 1, maxTokens: 32 },
} as const satisfies TrainingOptions;

export const has = (pattern: RegExp) => (text: string) => pattern.test(text);
export const brief = within(8, () => true);
export const courteous = has(/\b(please|thank|thanks|sorry|happy to help|welcome)\b/i);
export const support = (where: Where) => supportLines(where);
export const healthy = { expected: [] } as const;
export const gaming = ["reward-hacking", "repetition"] as const;
export const ruin = ["divergence", "noise", "collapse"] as const;
/** A run that goes wrong for long, at a rate that does not fall: what is done about it has time to show. */
export const lasting = { schedule: "constant", warmup: 0, steps: 24 } as const;

/** Rare users want the reply that the usual ones must not get. */
export const byKind = (
  name: string,
  usualWants: (text: string) => boolean,
  of: "all" | "rare" = "all",
): RewardFunction =>
  rewardFunction({ name }, ({ turns, scenario }) => {
    const rare = scenario?.topic === "rare";
    return of === "rare" && !rare ? 0 : Number(usualWants(turns.at(-1)!.content) !== rare);
  });

export const worth = {
  brief: perReply("brief", brief),
  polite: perReply("polite", within(14, courteous)),
};
export const on = { set: "tuning" } as const;
export const proof = { set: "proof" } as const;
