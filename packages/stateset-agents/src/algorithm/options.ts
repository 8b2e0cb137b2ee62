/**
 * Every option of every algorithm with its default, in one place. Objects are strict: an option that its algorithm does not have is an error.
 * Formulas and sources stand at the head of the file that computes them (advantage/*.ts, loss/*.ts); docs/reference/algorithms.md is the overview.
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

/**
 * Weights against the mismatch of sampler and trainer: on unless it is false, and acts only on sequences that carry the sampler's own
 * log-probs (another engine's, or those of top-p, penalties and the like).
 */
const correction = {
  correction: z.union([z.literal(false), correctionSchema()]).prefault({}),
};

function correctionSchema() {
  return z
    .strictObject({
      mode: z.enum(["truncate", "mask"]).default("truncate"),
      cap: z.number().positive().default(2),
      low: z.number().nonnegative().default(0.5),
      high: z.number().positive().default(5),
      sequenceMask: z.boolean().default(false),
    })
    .refine(({ low, high }) => low < high, "low must be below high");
}

const scale = (value: "group" | "batch" | "none") => ({
  /** What centred rewards are divided by: the std of the group, of the batch, or nothing. */
  scale: z.enum(["group", "batch", "none"]).default(value),
  /** Weights of the reward's named parts; when given, each part is normalised in its group first (GDPO). */
  rewardWeights: z.record(z.string(), z.number()).optional(),
});

const credit = {
  /**
   * "episode": one advantage for the whole conversation. "turn": each reply is compared with the same reply of its group's other members
   * (turn-credit.ts). "state": besides, with the replies of its group that began from the same state (state-credit.ts).
   */
  credit: z.enum(["episode", "turn", "state"]).default("episode"),
  /** With credit "state": weight of the comparison by state beside that of the episode. Default 1. */
  stateWeight: z.number().nonnegative().optional(),
  /** With credit "state": discount per reply of the rewards that are still to come. Default 0.95. */
  stateDiscount: z.number().min(0).max(1).optional(),
};

/** Clip, KL, entropy and mismatch: what every clipped surrogate has. */
const clipped = (low: number, high: number, beta = 0, where: "loss" | "reward" = "loss") => ({
  ...clip(low, high),
  ...dualClip,
  ...kl(beta, where),
  ...entropy(),
  ...correction,
});

const value = (coefficientValue: number) => ({
  /** Weight of the value loss. */
  valueCoefficient: coefficient(coefficientValue),
});

const valueClip = {
  /** How far V may move from the value at sampling time before its loss goes flat; null: no clip. */
  valueClip: z.number().positive().nullable().default(0.2),
};

const bootstrap = {
  /** A conversation that a limit ended (tokens, replies, context) is worth the value head's number after its last token, and not 0. Off when absent. */
  bootstrap: z.boolean().optional(),
};

/** Discount for each token, or for each reply where `level` is "turn". */
const gamma = { gamma: fraction(1) };

const gae = {
  /** "token": each token is a step. "turn": each reply is one. */
  level: z.enum(["token", "turn"]).default("token"),
  /** Discount per step. Default: 1 for tokens, 0.99 for turns. */
  gamma: z.number().min(0).max(1).optional(),
  /** Below 1 a reward reaches back 1/(1 − λ) steps, and further only as far as the value head has learnt to expect it (gae.ts). */
  lambda: fraction(1),
  /** Centres and scales advantages over the batch's tokens. Without it, all of them are as far off as the value head's mean is. */
  whiten: z.boolean().default(true),
};

export const schemas = {
  grpo: z.strictObject({ algorithm: z.literal("grpo"), ...clipped(0.2, 0.2), ...scale("group"), ...credit }),
  "dr-grpo": z.strictObject({ algorithm: z.literal("dr-grpo"), ...clipped(0.2, 0.2), ...scale("none"), ...credit }),
  bnpo: z.strictObject({ algorithm: z.literal("bnpo"), ...clipped(0.2, 0.2), ...scale("group"), ...credit }),
  dapo: z.strictObject({
    algorithm: z.literal("dapo"),
    ...clipped(0.2, 0.28),
    ...scale("group"),
    ...credit,
    /** Refuse groups whose advantages are all 0 (before shaping) and sample others in their place. */
    dynamicSampling: z.boolean().default(true),
    maxSamplingRounds: z.int().positive().default(10),
    /** How much is taken off the reward of a reply that reaches the token limit; 0: off. */
    overlongPenalty: coefficient(1),
    /** The part of the token limit over which that penalty grows from nothing. */
    overlongBuffer: z.number().gt(0).max(1).default(0.2),
  }),
  gspo: z.strictObject({ algorithm: z.literal("gspo"), ...clipped(3e-4, 4e-4), ...scale("group") }),
  "gspo-token": z.strictObject({
    algorithm: z.literal("gspo-token"),
    ...clipped(3e-4, 4e-4),
    ...scale("group"),
    ...credit,
  }),
  gepo: z.strictObject({ algorithm: z.literal("gepo"), ...clipped(0.2, 0.2), ...scale("group") }),
  cispo: z.strictObject({
    algorithm: z.literal("cispo"),
    /** c of clip(ρ, 0, c). */
    ratioCap: z.number().positive().default(5),
    ...kl(0, "loss"),
    ...entropy(),
    ...correction,
    ...scale("group"),
    ...credit,
  }),
  sapo: z.strictObject({
    algorithm: z.literal("sapo"),
    /** τ of the gate where the advantage is positive: the larger, the sooner a token's gradient fades as ρ leaves 1. */
    tauPositive: z.number().positive().default(1),
    /** τ where it is not. */
    tauNegative: z.number().positive().default(1.05),
    ...kl(0, "loss"),
    ...entropy(),
    ...correction,
    ...scale("group"),
    ...credit,
  }),
  gmpo: z.strictObject({
    algorithm: z.literal("gmpo"),
    /** Of the log-ratio of a token: ρ may fall to e^−epsilonLow before its gradient stops. */
    epsilonLow: coefficient(0.4),
    /** ρ may rise to e^epsilonHigh. */
    epsilonHigh: coefficient(0.4),
    ...kl(0, "loss"),
    ...entropy(),
    ...correction,
    ...scale("group"),
  }),
  luspo: z.strictObject({ algorithm: z.literal("luspo"), ...clipped(2e-3, 2.5e-3), ...scale("group") }),
  ppo: z.strictObject({
    algorithm: z.literal("ppo"),
    ...clipped(0.2, 0.2, 0.01, "reward"),
    /** Lets beta move so that the KL per token stays near this. Off when absent. */
    targetKl: z.number().positive().optional(),
    /** Sequences over which beta may change by a fifth of itself. */
    klHorizon: z.number().positive().default(10_000),
    ...gae,
    ...bootstrap,
    ...value(0.1),
    ...valueClip,
  }),
  vapo: z.strictObject({
    algorithm: z.literal("vapo"),
    ...clipped(0.2, 0.28),
    ...gamma,
    /** α of λ = 1 − 1/(α·length). */
    lengthAlpha: z.number().positive().default(0.05),
    /** The least λ: α is meant for thousands of tokens, and would make λ 0 for a reply of twenty. */
    lambdaFloor: z.number().min(0).lt(1).default(0.999),
    whiten: z.boolean().default(true),
    ...bootstrap,
    ...value(0.1),
    ...valueClip,
    /** Weight of the likelihood of successful samples. */
    positiveCoefficient: coefficient(0.1),
    /** The reward from which a sample is successful. */
    successThreshold: z.number().default(0.5),
    /** Steps in which only the value head learns. Default: a tenth of the run, at most 50. */
    valueWarmupSteps: z.int().nonnegative().optional(),
  }),
  a2c: z.strictObject({
    algorithm: z.literal("a2c"),
    ...gae,
    ...bootstrap,
    /** Use n-step returns of this many tokens instead of GAE; null: GAE. */
    nSteps: z.int().positive().nullable().default(null),
    ...value(0.5),
    ...entropy(0.01),
    ...correction,
  }),
  trpo: z.strictObject({
    algorithm: z.literal("trpo"),
    ...scale("group"),
    ...credit,
    ...correction,
    /** δ: the mean KL(old‖new) a step may reach. */
    maxKl: z.number().positive().default(0.01),
    cgSteps: z.int().positive().default(10),
    damping: coefficient(0.1),
    backtracks: z.int().positive().default(10),
    backtrackRatio: z.number().gt(0).lt(1).default(0.8),
  }),
  rloo: z.strictObject({
    algorithm: z.literal("rloo"),
    /** Clip of the sequence ratio; no clip when absent. */
    epsilonLow: z.number().min(0).max(1).optional(),
    epsilonHigh: z.number().nonnegative().optional(),
    ...kl(0, "reward"),
    ...entropy(),
    ...correction,
  }),
  reinforce: z.strictObject({
    algorithm: z.literal("reinforce"),
    baseline: z.enum(["none", "batch", "group"]).default("batch"),
    ...kl(0, "reward"),
    ...entropy(),
    ...correction,
  }),
  "reinforce++": z.strictObject({
    algorithm: z.literal("reinforce++"),
    ...clip(0.2, 0.2),
    ...dualClip,
    /** Coefficient of the KL penalty (k1) in each token's reward; 0 needs no reference. */
    beta: coefficient(0.01),
    ...gamma,
    baseline: z.enum(["none", "group"]).default("none"),
    ...entropy(),
    ...correction,
  }),
} as const;

export type AlgorithmName = keyof typeof schemas;

/** One schema for all, told apart by `algorithm`. */
export const algorithmSchema = z.discriminatedUnion("algorithm", [
  schemas.grpo,
  schemas["dr-grpo"],
  schemas.bnpo,
  schemas.dapo,
  schemas.gspo,
  schemas["gspo-token"],
  schemas.gepo,
  schemas.cispo,
  schemas.sapo,
  schemas.gmpo,
  schemas.luspo,
  schemas.ppo,
  schemas.vapo,
  schemas.a2c,
  schemas.trpo,
  schemas.rloo,
  schemas.reinforce,
  schemas["reinforce++"],
]);

/** Members of a group when the user does not say. */
export const defaultGroupSizes: Readonly<Record<AlgorithmName, number>> = {
  grpo: 8,
  "dr-grpo": 8,
  bnpo: 8,
  dapo: 8,
  gspo: 4,
  "gspo-token": 4,
  gepo: 8,
  cispo: 8,
  sapo: 8,
  gmpo: 8,
  luspo: 8,
  ppo: 8,
  vapo: 8,
  a2c: 8,
  trpo: 8,
  rloo: 4,
  reinforce: 4,
  "reinforce++": 4,
};
