/** The optimiser's settings and the schedule of its rate: one schema for every learner. */
import { z } from "zod";
import type { MemoryPlan, ModelInfo, Sampler, StepOptions, Trainer } from "../policy/policy.ts";

const positive = z.number().positive();
const share = z.number().min(0).max(1);

/** Spread into the strict schema of each learner. */
export const optimiserShape = {
  learningRate: positive
    .optional()
    .describe("Peak rate. Left out: chosen by the model's size (and, in train(), the profile)."),
  weightDecay: z.number().min(0).default(0).describe("AdamW's decay of the weights."),
  beta1: share.default(0.9).describe("AdamW's decay of the first moment."),
  beta2: share.default(0.99).describe("AdamW's decay of the second moment."),
  // Elsewhere "epsilon" is the clip of the ratio; as AdamW's it would stop a run from learning, without a word.
  epsilon: positive
    .max(1e-3, "AdamW's ε is tiny; the clip of the ratio is epsilonLow and epsilonHigh")
    .default(1e-8)
    .describe("AdamW's ε. The clip of the ratio is the algorithm's `epsilonLow` and `epsilonHigh`."),
  clipNorm: positive.default(1).describe("Largest norm of the gradient."),
  loraPlusRatio: z
    .number()
    .min(1)
    .default(1)
    .describe(
      "LoRA+: how many times faster the adapter's B matrices learn than its A matrices, which learn at `learningRate`. 1 is plain LoRA.",
    ),
} as const;

export const scheduleShape = {
  schedule: z.enum(["constant", "linear", "cosine"]).default("cosine").describe("How the rate falls after warm-up."),
  finalLearningRateShare: share.default(0.1).describe("Share of the peak rate that is left at the last step."),
  warmup: share.default(0.05).describe("Share of the steps over which the rate rises from 0."),
} as const;

/** How much is computed at a time. */
export const passShape = {
  tokenBudget: z
    .int()
    .min(16)
    .optional()
    .describe(
      "Distinct tokens per forward pass and process, for memory. Left out: chosen by the model's size, so that a pass keeps at most about 2 GiB of activations; never above 8192. Another budget adds up the same gradient in another order: it differs by rounding, about 1e-6 of its size. The same budget gives the same bits.",
    ),
  recompute: z.boolean().default(false).describe("Recompute activations in the backward pass: less memory, more time."),
} as const;

export type OptimiserSettings = z.output<z.ZodObject<typeof optimiserShape>>;
export type ScheduleSettings = z.output<z.ZodObject<typeof scheduleShape>>;
/** Complete: the budget is a number. */
export type PassSettings = z.output<z.ZodObject<typeof passShape>> & { tokenBudget: number };

/** What policy.step() takes of the settings, at the given rate. */
export function stepOptions(settings: Omit<OptimiserSettings, "learningRate">, learningRate: number): StepOptions {
  const { weightDecay, beta1, beta2, epsilon, clipNorm, loraPlusRatio } = settings;
  const plus = loraPlusRatio === 1 ? {} : { loraPlusRatio };
  return { learningRate, weightDecay, beta1, beta2, epsilon, clipNorm, ...plus };
}

/** The rate of a step (counted from 1): a linear rise over the warm-up, then the schedule down to `finalLearningRateShare` of the peak. */
export function learningRateAt(
  step: number,
  settings: ScheduleSettings & { steps: number; learningRate: number },
): number {
  const { steps, learningRate, schedule, finalLearningRateShare } = settings;
  const warmupSteps = Math.round(settings.warmup * steps);
  if (step <= warmupSteps) return (learningRate * step) / (warmupSteps + 1);
  if (schedule === "constant" || steps - warmupSteps <= 1) return learningRate;
  const progress = (step - warmupSteps - 1) / (steps - warmupSteps - 1);
  const left = schedule === "linear" ? 1 - progress : 0.5 * (1 + Math.cos(Math.PI * progress));
  return learningRate * (finalLearningRateShare + (1 - finalLearningRateShare) * left);
}

/**
 * A peak rate that suits AdamW at the model's size: small models need and bear larger ones, and so do adapters, which start at zero. The
 * small end is where a run of 100 steps learns every class of docs/results/classes.md; the large end is what the RL literature uses (1e-6
 * to 5e-6 at 7B).
 */
export function learningRateFor(model?: Pick<ModelInfo, "parameters" | "lora">): number {
  const { parameters, lora } = model ?? { parameters: Number.POSITIVE_INFINITY };
  if (parameters < 1e8) return lora ? 1e-3 : 3e-4;
  const full = parameters < 1e9 ? 2e-5 : 5e-6;
  return lora ? full * 10 : full;
}

const activationBytes = 2 ** 31;
const [leastBudget, mostBudget] = [256, 8192];

/** As many tokens as keep about 2 GiB of activations. Of the plan of a pass of one token. */
export function tokenBudgetFor({ activations }: Pick<MemoryPlan, "activations">): number {
  const fits = Math.floor(activationBytes / activations / leastBudget) * leastBudget;
  return Math.max(leastBudget, Math.min(mostBudget, fits));
}

/** Tokens of a micro-batch: the budget is that of one process, and engines share a pass among several. */
export function batchTokens({ capabilities }: Pick<Sampler, "capabilities">, tokenBudget: number): number {
  return tokenBudget * (capabilities.ranks ?? 1);
}

/** For passes of this policy, where none is given. It follows from the model's shape alone: another budget gives other bits. */
export function defaultTokenBudget(policy: Pick<Trainer, "plan"> | undefined, recompute = false): number {
  return policy ? tokenBudgetFor(policy.plan({ tokenBudget: 1, recompute, reference: false })) : mostBudget;
}
