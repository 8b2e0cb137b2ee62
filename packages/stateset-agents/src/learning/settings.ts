import { z } from "zod";
import { type OptimiserSettings, optimiserShape, type PassSettings, passShape } from "./optimiser.ts";
import { type RewardShaping, rewardShapingSchema } from "./shape-rewards.ts";

const count = z.int().min(1);

export const klShape = {
  coefficient: z
    .number()
    .min(0)
    .default(0)
    .describe("Weight of the penalty; added to the loss of whatever algorithm runs."),
  estimator: z.enum(["k2", "k3"]).default("k3").describe("How the divergence is estimated from sampled tokens."),
} as const;

/** How an algorithm learns from conversations: spread into the schemas of train() and learnFrom(). */
export const learnShape = {
  seed: z.int().min(0).default(0).describe("Everything random in the run follows from it."),
  updatesPerRollout: count
    .default(1)
    .describe("Passes over the sampled conversations; above 1 the clip comes into force."),
  minibatches: count.default(1).describe("Optimiser steps per pass: the groups are dealt into this many parts."),
  maskTruncated: z
    .boolean()
    .default(false)
    .describe(
      "Learn nothing from conversations that were cut at a token limit: their reward may say more about the limit than about the policy. They still count in their group's mean.",
    ),
  maskFailedCalls: z
    .boolean()
    .default(false)
    .describe(
      "Learn nothing from conversations in which tools were called and every call failed: their reward may say more about the tools than about the policy. They still count in their group's mean.",
    ),
  entropyQuantile: z
    .number()
    .gt(0)
    .max(1)
    .optional()
    .describe(
      "Share of the step's tokens that get a policy gradient: those at which the policy was most uncertain (usual: 0.2). Costs one more forward pass a step. Left out: all of them.",
    ),
  offPolicyMask: z
    .number()
    .positive()
    .optional()
    .describe(
      "In nats a token: tokens of negative advantage learn nothing where the policy has moved further than this from what sampled their conversation (usual: 0.05 to 0.5). Left out: all learn.",
    ),
  ...passShape,
  ...optimiserShape,
  valueLearningRate: z
    .number()
    .positive()
    .optional()
    .describe("Rate of the value head, where there is one. Left out: learningRate."),
  entropyBonus: z
    .number()
    .min(0)
    .default(0)
    .describe("Weight of the mean entropy subtracted from the loss, for any algorithm."),
  rewardShaping: rewardShapingSchema,
} as const;

/** Complete: every rate is a number. */
export interface LearnSettings extends PassSettings, Omit<OptimiserSettings, "learningRate"> {
  seed: number;
  updatesPerRollout: number;
  minibatches: number;
  maskTruncated: boolean;
  maskFailedCalls: boolean;
  entropyQuantile?: number | undefined;
  offPolicyMask?: number | undefined;
  learningRate: number;
  valueLearningRate: number;
  entropyBonus: number;
  rewardShaping: RewardShaping;
  kl: { coefficient: number; estimator: "k2" | "k3" };
}
