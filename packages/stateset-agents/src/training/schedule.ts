import type { TrainingConfig } from "./config.ts";

/** The learning rate of a step (counted from 1): a linear rise over the warm-up, then the schedule down to `finalLearningRate` of the peak. */
export function learningRateAt(
  step: number,
  config: Pick<TrainingConfig, "steps" | "learningRate" | "schedule" | "warmup" | "finalLearningRate">,
): number {
  const { steps, learningRate, schedule, finalLearningRate } = config;
  const warmupSteps = Math.round(config.warmup * steps);
  if (step <= warmupSteps) return (learningRate * step) / (warmupSteps + 1);
  if (schedule === "constant" || steps - warmupSteps <= 1) return learningRate;
  const progress = (step - warmupSteps - 1) / (steps - warmupSteps - 1);
  const share = schedule === "linear" ? 1 - progress : 0.5 * (1 + Math.cos(Math.PI * progress));
  return learningRate * (finalLearningRate + (1 - finalLearningRate) * share);
}
