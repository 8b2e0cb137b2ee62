// The public surface of the algorithms.
export { type GaeOptions, gaeAdvantages } from "./advantage/gae.ts";
export { groupAdvantages, type Scale } from "./advantage/group.ts";
export { leaveOneOutAdvantages } from "./advantage/leave-one-out.ts";
export { lengthAdaptiveAdvantages } from "./advantage/length-adaptive-gae.ts";
export { multiRewardAdvantages } from "./advantage/multi-reward.ts";
export { reinforcePlusPlusAdvantages } from "./advantage/reinforce-plus-plus.ts";
export { type StateCreditOptions, stateAdvantages } from "./advantage/state-credit.ts";
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
export type { Correction } from "./correction.ts";
export { type AlgorithmDefinition, defineAlgorithm } from "./define-algorithm.ts";
export { adaptKl, type KlEstimator } from "./kl.ts";
export type { Aggregation } from "./loss/aggregation.ts";
export { geometricSurrogate, type LogClip } from "./loss/gmpo.ts";
export { meanRatio } from "./loss/gspo.ts";
export { type SoftGate, softSurrogate } from "./loss/sapo.ts";
export { type SequenceRatio, sequenceSurrogate } from "./loss/sequence-surrogate.ts";
export type { Clip } from "./loss/surrogate.ts";
export { entropyTerm, type Gradients, klTerm, sumTerms, type Term } from "./loss/terms.ts";
export { type TokenLossOptions, type TokenPoint, tokenLoss } from "./loss/token-loss.ts";
export { type TokenLogRatio, tokenSurrogate } from "./loss/token-surrogate.ts";
export { conjugateGradient, finiteDifferenceFisher, trustRegionStep } from "./trust-region.ts";
