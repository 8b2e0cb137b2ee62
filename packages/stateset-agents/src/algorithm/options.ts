/**
 * Every option of every algorithm with its default, in one place. Objects are strict: an option that its algorithm does not have is an error.
 * Formulas and sources stand at the head of the file that computes them (advantage/*.ts, loss/*.ts); docs/algorithms.md is the overview.
 */
import { z } from "zod";

const coefficient = (value: number) => z.number().nonnegative().default(value);
const fraction = (value: number) => z.number().min(0).max(1).default(value);

const clip = (low: number, high: number) => ({
  /** ρ may fall to 1 − epsilonLow before its gradient stops. */
  epsilonLow: z.number().min(0).lt(1).default(low),
  /** ρ may rise to 1 + epsilonHigh. */
  epsilonHigh: coefficient(high),
});

/** For A < 0 the loss is capped at −dualClip·A; null: no cap. The usual value is 3. */
const dualClip = { dualClip: z.number().gt(1).nullable().default(null) };

const kl = (beta: number, where: "loss" | "reward") => ({
  /** Coefficient of the KL penalty against the frozen reference; 0 needs no reference. */
  beta: coefficient(beta),
  klEstimator: z.enum(["k1", "k2", "k3"]).default("k3"),
  /** In the loss (with klEstimator) or subtracted from the reward (always k1). */
  klIn: z.enum(["loss", "reward"]).default(where),
});

const entropy = (value = 0) => ({
  /** Coefficient of the entropy bonus. */
  entropyCoefficient: coefficient(value),
});

/** Weights against the mismatch of sampler and trainer; only acts on sequences that carry the sampler's own log-probs. */
const correction = {
  correction: z
    .strictObject({
      mode: z.enum(["truncate", "mask"]).default("truncate"),
      cap: z.number().positive().default(2),
      low: z.number().nonnegative().default(0.5),
      high: z.number().positive().default(5),
      sequenceMask: z.boolean().default(false),
    })
    .optional(),
};

const scale = (value: "group" | "batch" | "none") => ({
  /** What centred rewards are divided by: the std of the group, of the batch, or nothing. */
  scale: z.enum(["group", "batch", "none"]).default(value),
  /** Weights of the reward's named parts; when given, each part is normalised in its group first (GDPO). */
  rewardWeights: z.record(z.string(), z.number()).optional(),
});

/** "episode": one advantage for the whole conversation. "turn": each reply is compared with the same reply of its group's other members. */
const credit = { credit: z.enum(["episode", "turn"]).default("episode") };

const grpoFamily = (value: "group" | "batch" | "none", low = 0.2, high = 0.2) => ({
  ...clip(low, high),
  ...dualClip,
  ...kl(0, "loss"),
  ...entropy(),
  ...scale(value),
  ...credit,
  ...correction,
});

export const schemas = {
  grpo: z.strictObject({ algorithm: z.literal("grpo"), ...grpoFamily("group") }),
  "dr-grpo": z.strictObject({ algorithm: z.literal("dr-grpo"), ...grpoFamily("none") }),
  bnpo: z.strictObject({ algorithm: z.literal("bnpo"), ...grpoFamily("group") }),
  dapo: z.strictObject({
    algorithm: z.literal("dapo"),
    ...grpoFamily("group", 0.2, 0.28),
    /** Drop groups whose rewards are all equal and sample others in their place. */
    dynamicSampling: z.boolean().default(true),
    maxSamplingRounds: z.int().positive().default(10),
    /** How much is taken off the reward of a reply that reaches the token limit; 0: off. */
    overlongPenalty: coefficient(1),
    /** The part of the token limit over which that penalty grows from nothing. */
    overlongBuffer: fraction(0.2).refine((value) => value > 0, "must be above 0"),
  }),
} as const;

export type AlgorithmName = keyof typeof schemas;

/** Members of a group when the user does not say. */
export const defaultGroupSizes: Record<AlgorithmName, number> = {
  grpo: 8,
  "dr-grpo": 8,
  bnpo: 8,
  dapo: 8,
};
