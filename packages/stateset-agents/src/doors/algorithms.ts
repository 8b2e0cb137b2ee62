/** `stateset-agents/algorithms`: what turns rewards into derivatives. Settings of algorithms and runs, advantages, losses, value functions, writing your own. */
export type { MetricSum } from "../algorithm/algorithm.ts";
export * from "../algorithm/index.ts";
export type { TrustRegionProblem, TrustRegionResult } from "../algorithm/trust-region.ts";
export type { RolloutOptions } from "../rollout/settings.ts";
export type { FitResult } from "../supervised/fit.ts";
export { type ValueFitOptions, ValueFunction, type ValueFunctionOptions } from "../supervised/value-function.ts";
export {
  type ResolveContext,
  resolveConfig,
  type TrainingConfig,
  type TrainingOptions,
  trainingConfigSchema,
} from "../training/config.ts";
export { type Profile, type ProfileName, profiles } from "../training/profiles.ts";
