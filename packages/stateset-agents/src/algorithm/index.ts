// The public surface of the algorithms.
export { type GaeOptions, gaeAdvantages } from "./advantage/gae.ts";
export { groupAdvantages, type Scale } from "./advantage/group.ts";
export { leaveOneOutAdvantages } from "./advantage/leave-one-out.ts";
export { lengthAdaptiveAdvantages } from "./advantage/length-adaptive-gae.ts";
export { multiRewardAdvantages } from "./advantage/multi-reward.ts";
export { reinforcePlusPlusAdvantages } from "./advantage/reinforce-plus-plus.ts";
export { tokenRewards, turnAdvantages } from "./advantage/turn-credit.ts";
export type {
  AdvantageFunction,
  Advantages,
  Algorithm,
  BatchCounts,
  LossFunction,
  LossResult,
  LossSequence,
  MetricSums,
  Needs,
  Sequence,
  TrustRegion,
} from "./algorithm.ts";
export type { AlgorithmChoice } from "./algorithm-choice.ts";
export {
  type AlgorithmConfig,
  type AlgorithmName,
  algorithmDefaults,
  algorithmNames,
  algorithmSchema,
  createAlgorithm,
  defaultGroupSize,
  type ResolvedAlgorithmConfig,
} from "./algorithms.ts";
export {
  checkGradient,
  type GradientCheck,
  type GradientCheckOptions,
  type GradientMismatch,
} from "./check-gradient.ts";
export { type AlgorithmDefinition, defineAlgorithm } from "./define-algorithm.ts";
export type { KlEstimator } from "./kl.ts";
export type { Aggregation } from "./loss/aggregation.ts";
export { type TokenLossOptions, type TokenPoint, tokenLoss } from "./loss/token-loss.ts";
export { conjugateGradient, finiteDifferenceFisher, trustRegionStep } from "./trust-region.ts";
